package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/twolane/twolane/internal/openstore"
)

// ReadFile reads our configuration file. It is complete when there is no error.
func ReadFile(path string, env func(string) string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Read(data)
	if err == nil {
		err = c.connection(env)
	}
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Read reads YAML on top of the defaults. An unknown key is an error.
func Read(data []byte) (*Config, error) {
	c := Default()
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		if e, ok := errors.AsType[*yaml.TypeError](err); ok {
			for i, text := range e.Errors { // line 3: field poools not found in type config.Config
				text = goType.ReplaceAllString(text, "the key $1 is unknown")
				e.Errors[i] = noUnit.ReplaceAllString(text, "$1 has no unit, as ${1}s has")
			}
		}
		return nil, err
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	return c, nil
}

var (
	goType = regexp.MustCompile(`field (\S+) not found in type \S+$`)
	noUnit = regexp.MustCompile("cannot unmarshal !!int `(\\d+)` into time.Duration$")
)

// Queues reads the queues again from our file, for a running processor that began with what ReadFile made of it. Nothing else in the file may have changed.
func Queues(path string, began *Config, env func(string) string) ([]Queue, error) {
	fresh, err := ReadFile(path, env)
	if err != nil {
		return nil, err
	}
	if err := onlyQueuesDiffer(*began, *fresh, "yaml"); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return fresh.Queues, nil
}

// connection finds the URL of the producers' Redis.
func (c *Config) connection(env func(string) string) error {
	if c.Redis.URLFile != "" && c.Redis.URL == "" {
		b, err := os.ReadFile(c.Redis.URLFile)
		if err != nil {
			return err
		}
		c.Redis.URL, c.Redis.URLFile = strings.TrimSpace(string(b)), ""
	}
	if c.Redis.URL == "" {
		c.Redis.URL = env("REDIS_URL")
	}
	if c.Redis.URL == "" && len(c.Redis.Addrs) == 0 {
		return invalid("redis.url", "is missing, and so is the environment variable REDIS_URL")
	}
	return nil
}

// String is the configuration as YAML, with everything that was filled in and without passwords.
func (c *Config) String() string {
	d := *c
	if d.Redis.URL != "" {
		d.Redis.URL = openstore.Redacted(d.Redis.URL)
	}
	d.Store.URL = openstore.Redacted(d.Store.URL)
	b, err := yaml.Marshal(&d)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
