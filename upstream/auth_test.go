package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/auth/authtest"
	"taskgate/wire"
)

// tokens lists the Authorization headers that a server got, in order.
func (s *scripted) tokens() []string {
	var out []string
	for _, r := range s.all(func(received) bool { return true }) {
		out = append(out, strings.TrimPrefix(r.header.Get("Authorization"), "Bearer "))
	}
	return out
}

// modernServer answers tools/call, and 401 to the tokens that it does not like.
func modernServer(t *testing.T, dislikes ...string) *scripted {
	return serve(t, func(w http.ResponseWriter, r received) bool {
		if slices.Contains(dislikes, strings.TrimPrefix(r.header.Get("Authorization"), "Bearer ")) {
			http.Error(w, "no", http.StatusUnauthorized)
			return true
		}
		replyJSON(w, http.StatusOK, r.ID, resultOK)
		return true
	})
}

func client(token string, life time.Duration) *Credentials {
	return &Credentials{Token: token, Expires: time.Now().Add(life)}
}

func callWith(t *testing.T, h *Connector, c *Credentials, id uint64) error {
	t.Helper()
	ctx := t.Context()
	if c != nil {
		ctx = WithCredentials(ctx, c)
	}
	_, err := h.Call(ctx, toolCall(id, "x", `{}`), &recorder{})
	return err
}

// unauthorizedBecause checks for an error of a request that was never sent.
func unauthorizedBecause(t *testing.T, err, want error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unauthorized || e.MayHaveRun || !errors.Is(err, want) {
		t.Errorf("got %v, want unauthorized: %v", err, want)
	}
}

func TestNothingOfTheClientByDefault(t *testing.T) {
	s := modernServer(t)
	h := connect(t, Options{URL: s.URL, Era: Modern})
	if err := callWith(t, h, client("secret", time.Hour), 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "tokens", s.tokens(), "")
}

func TestForward(t *testing.T) {
	s := modernServer(t, "revoked")
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: Forward{Now: time.Now}})
	if err := callWith(t, h, client("ann", time.Hour), 1); err != nil {
		t.Fatal(err)
	}
	unauthorizedBecause(t, callWith(t, h, nil, 2), errNoClient)
	unauthorizedBecause(t, callWith(t, h, &Credentials{}, 3), errNoToken)
	unauthorizedBecause(t, callWith(t, h, client("ann", -time.Second), 4), errExpired)
	if err := callWith(t, h, &Credentials{Token: "bob"}, 5); err != nil {
		t.Errorf("a token without a known end: %v", err)
	}
	if err := callWith(t, h, client("revoked", time.Hour), 6); !isKind(err, Unauthorized) {
		t.Errorf("got %v", err)
	}
	equal(t, "tokens", s.tokens(), "ann", "bob", "revoked")
}

func TestStaticIsReadAgainWhenRefused(t *testing.T) {
	s := modernServer(t, "old")
	token, reloads := "old", 0
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: Static{
		Token: func() string { return token },
		Reload: func() (bool, error) {
			if reloads++; reloads > 1 {
				return false, nil
			}
			token = "new"
			return true, nil
		},
	}})
	if err := callWith(t, h, client("ann", time.Hour), 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "tokens", s.tokens(), "old", "new")
	token = "old"
	if err := callWith(t, h, nil, 2); !isKind(err, Unauthorized) {
		t.Errorf("the file has not changed: got %v", err)
	}
	equal(t, "tokens", s.tokens(), "old", "new", "old")
}

func exchangeAt(t *testing.T, i *authtest.Issuer, change func(*ExchangeOptions)) *Exchange {
	t.Helper()
	o := ExchangeOptions{
		TokenURL: i.URL + "/token", ClientID: "gateway", ClientSecret: "s3cret", Audience: "reports",
		Margin: 30 * time.Second, Timeout: 5 * time.Second, Cache: 100, Client: i.Client(), Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	x, err := NewExchange(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExchange(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	s := modernServer(t)
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: exchangeAt(t, issuer, func(o *ExchangeOptions) {
		o.Resource, o.Scopes = "https://reports.example.com", []string{"read", "write"}
	})})
	for id := range uint64(3) {
		if err := callWith(t, h, client("ann", time.Hour), id+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := callWith(t, h, client("bob", time.Hour), 4); err != nil {
		t.Fatal(err)
	}
	equal(t, "tokens", s.tokens(), "exchanged-1", "exchanged-1", "exchanged-1", "exchanged-2")
	form := issuer.Exchanges()[0]
	for name, want := range map[string]string{
		"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": "ann",
		"subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
		"audience":           "reports", "resource": "https://reports.example.com", "scope": "read write",
	} {
		check(t, name, form.Get(name), want)
	}
	unauthorizedBecause(t, callWith(t, h, nil, 5), errNoClient)
	unauthorizedBecause(t, callWith(t, h, &Credentials{}, 6), errNoToken)
	unauthorizedBecause(t, callWith(t, h, client("cleo", -time.Second), 7), errExpired)
}

func TestExchangeIsAskedOnceByMany(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	s := modernServer(t)
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: exchangeAt(t, issuer, nil)})
	var wg sync.WaitGroup
	errs := make(chan error, 40)
	for id := range uint64(40) {
		wg.Go(func() { errs <- callWith(t, h, client("ann", time.Hour), id+1) })
	}
	wg.Wait()
	for range 40 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	check(t, "exchanges", len(issuer.Exchanges()), 1)
}

// TestExchangeRefreshes: a token is replaced before it ends; once the client's
// own has ended, by the refresh token.
func TestExchangeRefreshes(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	issuer.SetLifetime(time.Minute)
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	s := modernServer(t)
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: exchangeAt(t, issuer, func(o *ExchangeOptions) { o.Now = clock })})
	c := &Credentials{Token: "ann", Expires: clock().Add(2 * time.Minute)}
	steps := []struct {
		pass  time.Duration
		grant string // of the request that this makes necessary; "": none
	}{
		{0, "urn:ietf:params:oauth:grant-type:token-exchange"},
		{20 * time.Second, ""},
		{20 * time.Second, "urn:ietf:params:oauth:grant-type:token-exchange"}, // within the margin
		{2 * time.Minute, "refresh_token"},
	}
	for i, step := range steps {
		pass(step.pass)
		before := len(issuer.Exchanges())
		if err := callWith(t, h, c, uint64(i+1)); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		grant := ""
		if asked := issuer.Exchanges(); len(asked) > before {
			grant = asked[len(asked)-1].Get("grant_type")
		}
		check(t, fmt.Sprintf("step %d: grant", i), grant, step.grant)
	}
	check(t, "refreshed with", issuer.Exchanges()[2].Get("refresh_token"), "refresh-2")
}

func TestExchangeAgainWhenTheUpstreamRefuses(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	s := modernServer(t, "exchanged-1")
	h := connect(t, Options{URL: s.URL, Era: Modern, Auth: exchangeAt(t, issuer, nil)})
	if err := callWith(t, h, client("ann", time.Hour), 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "tokens", s.tokens(), "exchanged-1", "exchanged-2")

	always := modernServer(t, "exchanged-2", "exchanged-3", "exchanged-4")
	h = connect(t, Options{URL: always.URL, Era: Modern, Auth: exchangeAt(t, issuer, nil)})
	if err := callWith(t, h, client("ann", time.Hour), 2); !isKind(err, Unauthorized) {
		t.Errorf("got %v", err)
	}
	check(t, "attempts", len(always.tokens()), 2)
}

func TestExchangeFailures(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		kind   ErrorKind
		text   string
	}{
		{"the client's token is refused", answer(400, `{"error":"invalid_grant","error_description":"ann-token is revoked"}`), Unauthorized, `token exchange: HTTP 400 "invalid_grant"`},
		{"the gateway is refused", answer(401, `{"error":"invalid_client"}`), Unauthorized, `token exchange: HTTP 401 "invalid_client"`},
		{"the endpoint fails", answer(500, `ann-token`), Unreachable, "token exchange: HTTP 500"},
		{"the endpoint is busy", answer(429, ``), Unreachable, "token exchange: HTTP 429"},
		{"no token in the answer", answer(200, `{}`), Unreachable, "token exchange: "},
		{"no JSON", answer(200, `ann-token`), Unreachable, "token exchange: "},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, Unauthorized, "token exchange: HTTP 307"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			issuer := authtest.NewIssuer(t)
			issuer.SetExchange(tt.answer)
			s := modernServer(t)
			x := exchangeAt(t, issuer, func(o *ExchangeOptions) {
				o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			})
			err := callWith(t, connect(t, Options{URL: s.URL, Era: Modern, Auth: x}), client("ann-token", time.Hour), 1)
			var e *Error
			if !errors.As(err, &e) || e.Kind != tt.kind || e.MayHaveRun || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %s: %s", err, tt.kind, tt.text)
			}
			if strings.Contains(err.Error(), "ann-token") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a secret: %v", err)
			}
			check(t, "requests upstream", len(s.tokens()), 0)
		})
	}
}

// TestLegacyCallIsAuthorizedThroughout: initialize, the call, an answer to a
// question long after the first token has ended, and the session's end.
func TestLegacyCallIsAuthorizedThroughout(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	var mu sync.Mutex
	now := time.Now()
	answered := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r received) bool {
		switch {
		case r.Method == "tools/call":
			stream(w, event(`{'jsonrpc':'2.0','id':'q','method':'elicitation/create','params':{'message':'?','requestedSchema':{'type':'object'}}}`))
			<-answered
			stream(w, event(`{'jsonrpc':'2.0','id':%s,'result':{'content':[]}}`, r.ID))
			return true
		case r.http == http.MethodPost && r.IsResponse():
			close(answered)
		}
		return false
	})
	x := exchangeAt(t, issuer, func(o *ExchangeOptions) { o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now } })
	h, err := NewHTTP(Options{Name: "test", URL: s.URL, Era: Legacy, Auth: x})
	if err != nil {
		t.Fatal(err)
	}
	person := &recorder{ask: func(context.Context, string, wire.Raw) (wire.Raw, *wire.Error) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(2 * time.Hour) // people take their time
		issuer.SetLifetime(24 * time.Hour)
		return wire.Raw(`{"action":"accept","content":{}}`), nil
	}}
	ctx := WithCredentials(t.Context(), client("ann", time.Hour))
	if _, err := h.Call(ctx, toolCall(1, "x", `{}`), person); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, "requests", s.methods(), "initialize", "notifications/initialized", "tools/call", "response", "DELETE")
	equal(t, "tokens", s.tokens(), "exchanged-1", "exchanged-1", "exchanged-1", "exchanged-2", "exchanged-2")
}

func TestHeadersOfTheClient(t *testing.T) {
	s := modernServer(t)
	h := connect(t, Options{URL: s.URL, Era: Modern, NeedsClient: true})
	err := callWith(t, h, &Credentials{Header: http.Header{"X-Team": {"blue"}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "X-Team", s.all(method("tools/call"))[0].header.Get("X-Team"), "blue")
	unauthorizedBecause(t, callWith(t, h, nil, 2), errNoClient)
	check(t, "requests", len(s.tokens()), 1)
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	c := &Credentials{Token: "t0p", Header: http.Header{"Cookie": {"c00kie"}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, c); got != "(hidden)" {
			t.Errorf("%s: %s", format, got)
		}
	}
}
