package config

import (
	"maps"
	"slices"
)

// eachSecret calls f with every secret and its path. f may change it.
func (c *Config) eachSecret(f func(path string, s *Secret)) {
	f("redis.password", &c.Redis.Password)
	inMap(c.Tracing.Headers, "tracing.headers", f)
	for i := range c.Encryption.Keys {
		f(item("encryption.keys", i), &c.Encryption.Keys[i])
	}
	for i := range c.Upstreams {
		u, at := &c.Upstreams[i], item("upstreams", i)
		inMap(u.Headers, at+".headers", f)
		f(at+".auth.token", &u.Auth.Token)
		f(at+".auth.clientSecret", &u.Auth.ClientSecret)
	}
}

func inMap(secrets map[string]Secret, at string, f func(path string, s *Secret)) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		s := secrets[name]
		f(at+"."+name, &s)
		secrets[name] = s
	}
}
