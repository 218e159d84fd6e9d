package store

import (
	"fmt"
	"unicode/utf8"
)

// ValidName checks an id, queue, type, group, key name or value, topic or worker: 1 to 128 bytes of [A-Za-z0-9._:@/-], the
// first a letter or digit. Names are compared byte by byte.
func ValidName(field, s string) error {
	if s == "" {
		return &InvalidError{Field: field, Detail: "is empty"}
	}
	if len(s) > MaxName {
		return &InvalidError{Field: field, Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), MaxName), Max: MaxName}
	}
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z':
		case i > 0 && (b == '.' || b == '_' || b == ':' || b == '@' || b == '/' || b == '-'):
		default:
			_, n := utf8.DecodeRuneInString(s[i:])
			return &InvalidError{Field: field, Detail: fmt.Sprintf("%q has %q at byte %d; allowed are A-Z a-z 0-9 and, after the first, . _ : @ / -", s, s[i:i+n], i)}
		}
	}
	return nil
}
