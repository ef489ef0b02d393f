package main

import (
	"os"
	"slices"

	"github.com/spf13/pflag"

	"taskgate/config"
	"taskgate/policy"
)

// policyFlags say which policy is meant, and of which gateway.
type policyFlags struct {
	Policy []string
	Config string
}

func (f *policyFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.Policy, "policy", nil, policyUsage+"; none: those of the configuration")
	flags.StringVar(&f.Config, "config", "", "configuration `FILE` of the gateway, for what policy may see of requests, and for the time limits beside those of policy")
}

// load is the configuration that calls would meet, with the policy that is
// meant. Without a configuration file nothing is known of which headers policy
// sees.
func (f policyFlags) load() (cfg config.Config, sees policy.Sees, err error) {
	cfg = config.Default()
	if f.Config != "" {
		if cfg, err = config.Load(f.Config, os.Environ(), nil); err != nil {
			return cfg, nil, err
		}
		sees = policy.SeesOnly(cfg.PolicyHeaders)
	}
	if len(f.Policy) > 0 {
		cfg.Policy = f.Policy
	}
	return cfg, sees, nil
}

// upstreamOf is the upstream of that name; one that the configuration does not
// know is as if nothing was set for it.
func upstreamOf(cfg config.Config, name string) config.Upstream {
	if i := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name }); i >= 0 {
		return cfg.Upstreams[i]
	}
	var u config.Upstream
	u.SetDefaults()
	return u
}
