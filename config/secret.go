package config

import (
	"maps"
	"slices"
)

// eachSecret calls f with every secret and its path. f may change it.
func (c *Config) eachSecret(f func(path string, s *Secret)) {
	f("redis.password", &c.Redis.Password)
	for i := range c.Encryption.Keys {
		f(item("encryption.keys", i), &c.Encryption.Keys[i])
	}
	for i := range c.Upstreams {
		u, at := &c.Upstreams[i], item("upstreams", i)
		for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
			s := u.Headers[name]
			f(at+".headers."+name, &s)
			u.Headers[name] = s
		}
		f(at+".auth.token", &u.Auth.Token)
		f(at+".auth.clientSecret", &u.Auth.ClientSecret)
	}
}
