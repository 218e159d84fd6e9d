package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// NewView returns the view that fits w: redrawn in place on a terminal, a line now and then elsewhere and on a dumb terminal. It draws in
// colour unless NO_COLOR is set.
func NewView(w io.Writer) View {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return &lines{w: w, every: 2 * time.Second}
	}
	return &screen{w: f, color: os.Getenv("NO_COLOR") == "", width: func() int {
		w, _, err := term.GetSize(int(f.Fd()))
		if err != nil || w <= 0 {
			return 80
		}
		return w
	}}
}

// screen redraws in place.
type screen struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int
	color bool
	last  []string // on the screen
}

func (s *screen) Show(snap Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drawn := render(snap, s.width()-1, s.color)
	s.draw(s.erase(), drawn)
}

// Write prints messages above the view.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last
	if _, err := io.WriteString(s.w, s.erase()+string(p)); err != nil {
		return 0, err
	}
	s.draw("", last)
	return len(p), nil
}

func (s *screen) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// erase returns what takes the view off the screen.
func (s *screen) erase() string {
	n := len(s.last)
	s.last = nil
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", n)
}

// draw writes before and the view in one piece, so that nothing flickers. A terminal that has gone is found by what follows.
func (s *screen) draw(before string, drawn []string) {
	s.last = drawn
	if len(drawn) == 0 {
		return
	}
	_, _ = io.WriteString(s.w, before+strings.Join(drawn, "\n")+"\n")
}

// lines prints a line every now and then.
type lines struct {
	mu    sync.Mutex
	w     io.Writer
	every time.Duration
	next  time.Duration // elapsed time of the next line
}

func (l *lines) Show(s Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Elapsed < l.next {
		return
	}
	l.next = s.Elapsed.Truncate(l.every) + l.every
	_, _ = fmt.Fprintln(l.w, progress(s)) // progress that nobody can read is no reason to stop
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (l *lines) Close() {}
