package config

import "time"

// Default is the configuration of a gateway that was told nothing but its
// upstream.
func Default() Config {
	return Config{
		Listen:      "127.0.0.1:8080",
		AdminListen: "127.0.0.1:8081",
		TLS:         TLS{ClientAuth: ClientRequired, MinVersion: "1.2"},
		Audit:       Audit{To: "none"},
		Store:       "./data/taskgate.db",
		Redis:       Redis{Prefix: "taskgate"},
		Encryption:  Encryption{Plaintext: PlaintextRead},
		Tombstone:   24 * time.Hour,
		Lease:       10 * time.Second,
		Limits: Limits{
			MaxBodyBytes:                     4 * MiB,
			MaxHeaderBytes:                   64 * KiB,
			MaxJSONDepth:                     128,
			MaxJSONMembers:                   100_000,
			MaxRequestsPerSecond:             50_000,
			MaxRequestsPerSecondPerPrincipal: 1_000,
			MaxRequestBurstPerPrincipal:      200,
			MaxCalls:                         10_000,
			MaxCallsPerPrincipal:             1_000,
			MaxStreams:                       10_000,
			MaxStreamsPerPrincipal:           1_000,
			StreamBufferBytes:                256 * KiB,
			MaxOpenTasksPerPrincipal:         1_000,
			MaxStoredBytesPerPrincipal:       1 * GiB,
			MaxEarlyPolls:                    100,
			MaxQuestions:                     32,
		},
		Timeouts: Timeouts{
			ReadHeader: 5 * time.Second,
			Body:       30 * time.Second,
			Write:      30 * time.Second,
			Idle:       2 * time.Minute,
			KeepAlive:  15 * time.Second,
			Connect:    10 * time.Second,
			Store:      5 * time.Second,
			Forward:    5 * time.Minute,
			HoldAfter:  500 * time.Millisecond,
			Cancel:     3 * time.Second,
			Recheck:    5 * time.Second,
			InfoTTL:    5 * time.Minute,
			InfoWait:   2 * time.Second,
			Drain:      30 * time.Second,
		},
		Log:     Log{Level: "info", Format: JSON},
		Tracing: Tracing{SampleRatio: 1, ServiceName: "taskgate"},
	}
}

// SetDefaults is what an upstream starts with.
func (u *Upstream) SetDefaults() {
	u.Path = "/mcp"
	u.Era = EraAuto
	u.Transport = TransportAuto
	u.Isolation = IsolatePrincipal
	u.Cancel = CancelNotify
	u.Auth.setDefaults()
	u.Limits = UpstreamLimits{
		Concurrency:      64,
		Queue:            256,
		QueueTimeout:     30 * time.Second,
		MaxResponseBytes: 16 * MiB,
		MaxSessions:      64,
		SessionIdle:      5 * time.Minute,
		Start:            time.Minute,
	}
}
