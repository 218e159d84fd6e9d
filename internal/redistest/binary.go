package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// EnvServer is the environment variable that names the server program, a path or a name in PATH.
const EnvServer = "TWOLANE_REDIS_SERVER"

const installCommand = "apt-get update && apt-get install -y redis-server"

// ErrNoServer is returned (wrapped, with the command that installs it) when there is no server program.
var ErrNoServer = errors.New("redistest: no redis-server")

func findServer() (string, error) {
	if name := os.Getenv(EnvServer); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w: %s=%s: %w", ErrNoServer, EnvServer, name, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w in PATH; install it: sudo sh -c '%s', or name another program in %s",
			ErrNoServer, installCommand, EnvServer)
	}
	return path, nil
}

// ensureServer is findServer for tests: as root it installs what is missing, once per process. Test binaries that
// start together wait for each other on apt's own lock.
var ensureServer = sync.OnceValue(func() error {
	_, err := findServer()
	if err == nil || os.Getenv(EnvServer) != "" || os.Geteuid() != 0 {
		return err
	}
	if _, lookErr := exec.LookPath("apt-get"); lookErr != nil {
		return err
	}
	for _, args := range [][]string{
		{"update"},
		{"install", "-y", "--no-install-recommends", "redis-server"},
	} {
		cmd := exec.Command("apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, runErr := cmd.CombinedOutput(); runErr != nil {
			return fmt.Errorf("%w: apt-get %v: %w\n%s", err, args, runErr, out)
		}
	}
	_, err = findServer()
	return err
})
