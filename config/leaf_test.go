package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]ByteSize{"0B": 0, "1B": 1, "64KiB": 64 << 10, "4 MiB": 4 << 20, "1GiB": 1 << 30, "1536KiB": 1536 << 10, "8388607GiB": 8388607 << 30} {
		var s, again ByteSize
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: got %d, %v", text, s, err)
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s: written as %s, read as %d, %v", text, s, again, err)
		}
	}
	for _, text := range []string{"", "B", "KiB", "1.5MiB", "-1B", "1MB", "1kib", "1024", "9999999999GiB", "1e3B"} {
		var s ByteSize
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, s)
		}
	}
}

// TestSecretsAreNeverPrinted: by no verb and in no encoding.
func TestSecretsAreNeverPrinted(t *testing.T) {
	c, err := Load("", []string{"REDIS_SECRET=hunter2-env"}, func(c *Config) error {
		c.Store = "redis://user:hunter2-url@127.0.0.1:6379/0"
		if err := c.Redis.Password.UnmarshalText([]byte("env:REDIS_SECRET")); err != nil {
			return err
		}
		var file Secret
		if err := file.UnmarshalText([]byte("file:testdata/token")); err != nil {
			return err
		}
		if err := withUpstream(c); err != nil {
			return err
		}
		c.Upstreams[0].Headers = map[string]Secret{"X-Written": NewSecret("hunter2-written"), "Authorization": file}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Redis.Password.Value(); got != "hunter2-env" {
		t.Errorf("from the environment: %q", got)
	}
	if got := c.Upstreams[0].Headers["Authorization"].Value(); got != "from-a-file" {
		t.Errorf("from the file: %q", got)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%q", c.Redis.Password), fmt.Sprintf("%x", c.Redis.Password),
		string(asJSON), string(asYAML), c.Store.String(), fmt.Sprintf("%#v", c.Store),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "from-a-file") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("a secret in %s", text)
		}
	}
	if !strings.Contains(string(asYAML), "password: env:REDIS_SECRET") || !strings.Contains(string(asYAML), "X-Written: (hidden)") {
		t.Errorf("references are not shown:\n%s", asYAML)
	}
}

func TestStoreKind(t *testing.T) {
	for s, want := range map[Store]StoreKind{
		"memory": StoreMemory, "./data/x.db": StoreEmbedded, "memory.db": StoreEmbedded,
		"redis://h:1/0": StoreRedis, "rediss://h:1": StoreRedis,
	} {
		if got := s.Kind(); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
}
