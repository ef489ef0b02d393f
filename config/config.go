// Package config holds what an operator sets: defaults, then the YAML file,
// then the environment, then flags, each over the one before. Loading is strict
// and reports everything that is wrong at once.
package config

import "time"

// Config is the whole configuration. Zero means "none" or "unlimited" only where
// a field says so. Each field of the file is a variable of the environment too,
// except for upstreams.
type Config struct {
	// Listen is host:port of the MCP endpoint.
	Listen string `yaml:"listen" env:"LISTEN"`
	// AdminListen is host:port of health, metrics and views; "": none.
	AdminListen string `yaml:"adminListen" env:"ADMIN_LISTEN"`
	// PublicURL is what clients call the gateway, without a slash at its end; "":
	// on a loopback listener its address.
	PublicURL string `yaml:"publicURL" env:"PUBLIC_URL"`
	TLS       TLS    `yaml:"tls" envPrefix:"TLS_"`
	// Identity lists the ways to know a caller, in the order in which they are
	// tried; empty: every caller is the same principal.
	Identity []Identity `yaml:"identity" env:"-"`
	// ImpliedScopes lists scopes that include narrower ones.
	ImpliedScopes []ImpliedScopes `yaml:"impliedScopes" env:"-"`
	Audit         Audit           `yaml:"audit" envPrefix:"AUDIT_"`
	// InsecureNoIdentity lets a gateway without identity listen on more than
	// loopback: every caller is then the same principal.
	InsecureNoIdentity bool `yaml:"insecureNoIdentity" env:"INSECURE_NO_IDENTITY"`
	// AllowedOrigins are the values of Origin that browsers may send; those of
	// loopback are always allowed on a loopback listener.
	AllowedOrigins []string `yaml:"allowedOrigins" env:"ALLOWED_ORIGINS"`
	// AllowedHosts are the values of Host that are served; empty: on a loopback
	// listener the names of loopback, else any.
	AllowedHosts []string `yaml:"allowedHosts" env:"ALLOWED_HOSTS"`

	Store Store `yaml:"store" env:"STORE"`
	Redis Redis `yaml:"redis" envPrefix:"REDIS_"`
	// Encryption is that of what the store keeps.
	Encryption Encryption `yaml:"encryption" envPrefix:"ENCRYPTION_"`
	// Tombstone is how long after its expiry a task's owner is still told that
	// it has expired.
	Tombstone time.Duration `yaml:"tombstone" env:"TOMBSTONE"`
	// Lease is how long a replica that does not report is still believed alive.
	Lease time.Duration `yaml:"lease" env:"LEASE"`

	// Policy are policy files, or directories of them; empty: the built-in policy.
	Policy []string `yaml:"policy" env:"POLICY"`
	// PolicyHeaders are the request headers that policy can see.
	PolicyHeaders []string `yaml:"policyHeaders" env:"POLICY_HEADERS"`
	// PolicyInMeta tells clients, in _meta of results of tools/call, which rule
	// decided.
	PolicyInMeta bool `yaml:"policyInMeta" env:"POLICY_IN_META"`

	Upstreams []Upstream `yaml:"upstreams" env:"-"`

	Limits   Limits   `yaml:"limits" envPrefix:"LIMITS_"`
	Timeouts Timeouts `yaml:"timeouts" envPrefix:"TIMEOUTS_"`
	Log      Log      `yaml:"log" envPrefix:"LOG_"`
	Tracing  Tracing  `yaml:"tracing" envPrefix:"TRACING_"`
}

// Redis are the options of a redis:// store.
type Redis struct {
	// Prefix begins every key.
	Prefix string `yaml:"prefix" env:"PREFIX"`
	// PoolSize is the number of connections; 0: 128.
	PoolSize int    `yaml:"poolSize" env:"POOL_SIZE"`
	Username string `yaml:"username" env:"USERNAME"`
	Password Secret `yaml:"password" env:"PASSWORD"`
	// Addresses are further nodes, as host:port: of the cluster, or with
	// MasterName the Sentinels.
	Addresses  []string `yaml:"addresses" env:"ADDRESSES"`
	MasterName string   `yaml:"masterName" env:"MASTER_NAME"`
	// WaitReplicas is how many replicas must have a new task before its handle
	// goes out; 0: none. Not for a cluster.
	WaitReplicas int `yaml:"waitReplicas" env:"WAIT_REPLICAS"`
}

// Upstream is one server behind the gateway, by an URL or a command, or several
// others together.
type Upstream struct {
	// Name is what policy, logs and metrics call it.
	Name string `yaml:"name"`
	// Path is where clients find it.
	Path string `yaml:"path"`
	URL  string `yaml:"url"`
	// Command is a program and its arguments; it speaks MCP on stdio.
	Command []string `yaml:"command"`
	// Aggregate are the names of upstreams that this one joins under its path.
	Aggregate []string `yaml:"aggregate"`
	// TLS is that of an https URL.
	TLS UpstreamTLS `yaml:"tls"`
	Era Era         `yaml:"era"`
	// Transport is how an URL is spoken to.
	Transport Transport `yaml:"transport"`
	// Isolation says who may share a session, or a process of a command.
	Isolation Isolation         `yaml:"isolation"`
	Headers   map[string]Secret `yaml:"headers"` // sent with every request
	// Cancel says what of a cancel reaches the server.
	Cancel Cancel `yaml:"cancel"`
	// AllowLinkLocal lets the URL lead to link-local addresses and the metadata
	// services of clouds.
	AllowLinkLocal bool `yaml:"allowLinkLocal"`
	// Auth identifies requests to the upstream.
	Auth UpstreamAuth `yaml:"auth"`
	// ForwardHeaders are all that it gets of the client's own headers.
	ForwardHeaders []ForwardHeader `yaml:"forwardHeaders"`
	// Scopes are what a caller needs for any request to it.
	Scopes []string `yaml:"scopes"`
	// JobPrefix begins the names of the tools for jobs, where policy makes any.
	JobPrefix string         `yaml:"jobPrefix"`
	Limits    UpstreamLimits `yaml:"limits"`
}

// Era says which generation of the protocol an upstream speaks.
type Era string

// Eras.
const (
	EraAuto   Era = "auto"   // found out by asking
	EraLegacy Era = "legacy" // 2025-11-25 and earlier
	EraModern Era = "modern" // 2026-07-28
)

// Values lists the eras.
func (Era) Values() []string { return []string{string(EraAuto), string(EraLegacy), string(EraModern)} }

// Transport is a way to carry messages over HTTP.
type Transport string

// Transports.
const (
	TransportAuto Transport = "auto" // Streamable HTTP, else what answers
	TransportSSE  Transport = "sse"  // HTTP+SSE of 2024-11-05
)

// Values lists the transports.
func (Transport) Values() []string { return []string{string(TransportAuto), string(TransportSSE)} }

// Isolation says who may share a session of a legacy upstream, or a process of a
// command. Callers that announce other capabilities never share.
type Isolation string

// Kinds of isolation.
const (
	IsolateNobody    Isolation = "shared"    // all callers share
	IsolatePrincipal Isolation = "principal" // the calls of one principal do
	IsolateCall      Isolation = "call"      // nobody does
)

// Values lists the kinds.
func (Isolation) Values() []string {
	return []string{string(IsolateNobody), string(IsolatePrincipal), string(IsolateCall)}
}

// Cancel says what of a cancel reaches a server.
type Cancel string

// Kinds of telling a server.
const (
	CancelNotify Cancel = "notify" // notifications/cancelled
	CancelClose  Cancel = "close"  // the end of the session or process, once no other call is in it
	CancelNone   Cancel = "none"   // nothing
)

// Values lists the kinds.
func (Cancel) Values() []string {
	return []string{string(CancelNotify), string(CancelClose), string(CancelNone)}
}

// UpstreamLimits bound what one upstream gets and may send.
type UpstreamLimits struct {
	// Concurrency is how many calls run at once; Queue, how many more wait, each
	// at most QueueTimeout.
	Concurrency  int           `yaml:"concurrency"`
	Queue        int           `yaml:"queue"`
	QueueTimeout time.Duration `yaml:"queueTimeout"`
	// MaxResponseBytes bounds one answer, and one event of a stream.
	MaxResponseBytes ByteSize `yaml:"maxResponseBytes"`
	// MaxSessions bounds the sessions of a legacy upstream, or the processes of
	// a command; a call waits up to QueueTimeout for one. SessionIdle is how long an
	// unused one is kept.
	MaxSessions int           `yaml:"maxSessions"`
	SessionIdle time.Duration `yaml:"sessionIdle"`
	// Start bounds the start of a process up to its first answer.
	Start time.Duration `yaml:"start"`
}

// Limits bound what clients can make the gateway hold.
type Limits struct {
	MaxBodyBytes   ByteSize `yaml:"maxBodyBytes" env:"MAX_BODY_BYTES"`
	MaxHeaderBytes ByteSize `yaml:"maxHeaderBytes" env:"MAX_HEADER_BYTES"`
	// MaxJSONDepth bounds how deep a body nests, MaxJSONMembers how many members
	// all its objects have together.
	MaxJSONDepth   int `yaml:"maxJSONDepth" env:"MAX_JSON_DEPTH"`
	MaxJSONMembers int `yaml:"maxJSONMembers" env:"MAX_JSON_MEMBERS"`
	// MaxRequestsPerSecond bounds the requests of all callers together,
	// MaxRequestsPerSecondPerPrincipal those of each, of whom
	// MaxRequestBurstPerPrincipal may come at once.
	MaxRequestsPerSecond             int `yaml:"maxRequestsPerSecond" env:"MAX_REQUESTS_PER_SECOND"`
	MaxRequestsPerSecondPerPrincipal int `yaml:"maxRequestsPerSecondPerPrincipal" env:"MAX_REQUESTS_PER_SECOND_PER_PRINCIPAL"`
	MaxRequestBurstPerPrincipal      int `yaml:"maxRequestBurstPerPrincipal" env:"MAX_REQUEST_BURST_PER_PRINCIPAL"`
	// MaxCalls bounds the calls in flight on this replica, over all upstreams,
	// MaxCallsPerPrincipal those of one caller.
	MaxCalls             int `yaml:"maxCalls" env:"MAX_CALLS"`
	MaxCallsPerPrincipal int `yaml:"maxCallsPerPrincipal" env:"MAX_CALLS_PER_PRINCIPAL"`
	// MaxStreams bounds the open streams of subscriptions/listen,
	// MaxStreamsPerPrincipal those of one caller.
	MaxStreams             int `yaml:"maxStreams" env:"MAX_STREAMS"`
	MaxStreamsPerPrincipal int `yaml:"maxStreamsPerPrincipal" env:"MAX_STREAMS_PER_PRINCIPAL"`
	// MaxEarlyPolls is how often a task may be polled ahead of its poll interval.
	MaxEarlyPolls int `yaml:"maxEarlyPolls" env:"MAX_EARLY_POLLS"`
	// StreamBufferBytes bounds what waits for a client that reads slowly.
	StreamBufferBytes ByteSize `yaml:"streamBufferBytes" env:"STREAM_BUFFER_BYTES"`
	// MaxOpenTasksPerPrincipal bounds the tasks of one caller that have not ended.
	MaxOpenTasksPerPrincipal int `yaml:"maxOpenTasksPerPrincipal" env:"MAX_OPEN_TASKS_PER_PRINCIPAL"`
	// MaxStoredBytesPerPrincipal bounds what the store keeps of the tasks of one
	// caller, those that have ended included.
	MaxStoredBytesPerPrincipal ByteSize `yaml:"maxStoredBytesPerPrincipal" env:"MAX_STORED_BYTES_PER_PRINCIPAL"`
	// MaxQuestions bounds the unanswered questions of one task.
	MaxQuestions int `yaml:"maxQuestions" env:"MAX_QUESTIONS"`
}

// Timeouts bound the phases of a request. None of them bounds a call as a whole:
// that is for policy.
type Timeouts struct {
	ReadHeader time.Duration `yaml:"readHeader" env:"READ_HEADER"`
	Body       time.Duration `yaml:"body" env:"BODY"`   // to receive a request's body
	Write      time.Duration `yaml:"write" env:"WRITE"` // one write to a client
	Idle       time.Duration `yaml:"idle" env:"IDLE"`   // an unused connection
	// KeepAlive is the interval of comments on silent streams.
	KeepAlive time.Duration `yaml:"keepAlive" env:"KEEP_ALIVE"`
	Connect   time.Duration `yaml:"connect" env:"CONNECT"` // to an upstream, with TLS
	Store     time.Duration `yaml:"store" env:"STORE"`     // one operation of the store
	// Forward bounds requests other than tools/call.
	Forward time.Duration `yaml:"forward" env:"FORWARD"`
	// HoldAfter is when a client that waits gets headers and a first comment.
	HoldAfter time.Duration `yaml:"holdAfter" env:"HOLD_AFTER"`
	// Cancel is how long a cancelled task waits for its upstream to be told.
	Cancel time.Duration `yaml:"cancel" env:"CANCEL"`
	// Recheck is how often a task that a client waits for is read without a hint
	// that it changed, and how often a promotion that failed is tried again.
	Recheck time.Duration `yaml:"recheck" env:"RECHECK"`
	// InfoTTL is how long what an upstream says of itself is served from memory;
	// InfoWait, how long a request waits for that.
	InfoTTL  time.Duration `yaml:"infoTTL" env:"INFO_TTL"`
	InfoWait time.Duration `yaml:"infoWait" env:"INFO_WAIT"`
	// Drain is how long running calls may go on after SIGTERM.
	Drain time.Duration `yaml:"drain" env:"DRAIN"`
}

// Log says what is logged and how.
type Log struct {
	Level  Level  `yaml:"level" env:"LEVEL"`
	Format Format `yaml:"format" env:"FORMAT"`
}

// Level is the least severe level that is logged.
type Level string

// Values lists the levels.
func (Level) Values() []string { return []string{"debug", "info", "warn", "error"} }

// Format is the form of a log line.
type Format string

// Log formats.
const (
	JSON    Format = "json"
	Console Format = "console"
)

// Values lists the log formats.
func (Format) Values() []string { return []string{string(JSON), string(Console)} }
