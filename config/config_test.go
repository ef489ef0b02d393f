package config

import "testing"

func TestPrecedence(t *testing.T) {
	c, err := Load("../config.example.yaml", []string{"TASKGATE_LISTEN=127.0.0.1:9", "TASKGATE_TIMEOUTS_DRAIN=7s", "REDIS_PASSWORD=x", "REPORTS_AUTHORIZATION=y"}, func(c *Config) error {
		c.Listen = "127.0.0.1:10"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:10" || c.Timeouts.Drain.Seconds() != 7 || c.Upstreams[0].Path != "/reports" {
		t.Errorf("got %+v", c)
	}
}
