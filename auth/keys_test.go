package auth_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"taskgate/auth"
	"taskgate/auth/authtest"
	"taskgate/internal/bubble"
	"taskgate/internal/mcptest"
)

func TestKeyRotationWithoutRestart(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	clock := time.Now()
	o := jwtOptions(issuer)
	o.Keys = auth.NewKeys(auth.KeysOptions{
		Source: auth.KeysFromIssuer(http.DefaultClient, issuer.URL), Interval: time.Hour, RetryMin: time.Second,
		Unknown: 10 * time.Second, Timeout: 10 * time.Second, Now: func() time.Time { return clock }, Log: zap.NewNop(),
	})
	chain := auth.NewChain(nil, auth.NewJWT(o))
	identify := func(token string) error {
		_, err := chain.Identify(withToken(t, token), reports())
		return err
	}
	old := issuer.Token("ann", gatewayURL, nil)
	if err := identify(old); err != nil {
		t.Fatalf("the first token: %v", err)
	}

	issuer.AddEC("ec-2")
	rotated := issuer.Token("ann", gatewayURL, nil)
	refusedBecause(t, identify(rotated), "the access token is signed with a key that its issuer does not list")
	if n := issuer.Requests("/keys"); n != 1 {
		t.Errorf("keys were read %d times within ten seconds; an unknown key costs a reading only now and then", n)
	}
	clock = clock.Add(11 * time.Second)
	if err := identify(rotated); err != nil {
		t.Errorf("after rotation: %v", err)
	}
	if err := identify(old); err != nil {
		t.Errorf("the old key is still published: %v", err)
	}

	issuer.Remove("rsa-1")
	clock = clock.Add(11 * time.Second)
	third := issuer.AddRSA("rsa-3")
	madeUp := issuer.Sign(&authtest.Key{ID: "made-up", Method: third.Method, Signer: third.Signer}, issuer.Claims("x", gatewayURL, nil))
	refusedBecause(t, identify(madeUp), "the access token is signed with a key that its issuer does not list")
	refusedBecause(t, identify(old), "the access token is signed with a key that its issuer does not list")
}

func TestIssuerAway(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	chain := auth.NewChain(nil, auth.NewJWT(jwtOptions(issuer)))
	token := issuer.Token("ann", gatewayURL, nil)

	issuer.Down(true)
	var unavailable *auth.UnavailableError
	if _, err := chain.Identify(withToken(t, token), reports()); !errors.As(err, &unavailable) {
		t.Errorf("before its keys were ever read: got %v, want an *UnavailableError: the token may well be good", err)
	}
	issuer.Down(false)
	mcptest.Eventually(t, 10*time.Second, "the issuer is back", func() bool {
		_, err := chain.Identify(withToken(t, token), reports())
		return err == nil
	})
	issuer.Down(true)
	if _, err := chain.Identify(withToken(t, token), reports()); err != nil {
		t.Errorf("known keys are of no use once the issuer is away: %v", err)
	}
}

func TestManyUnknownKeysAtOnceShareOneReading(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	o := jwtOptions(issuer)
	o.Keys = auth.NewKeys(auth.KeysOptions{
		Source: auth.KeysFromURL(http.DefaultClient, issuer.URL+"/keys"), Interval: time.Hour, RetryMin: time.Second,
		Unknown: time.Hour, Timeout: 10 * time.Second, Now: time.Now, Log: zap.NewNop(),
	})
	chain := auth.NewChain(nil, auth.NewJWT(o))
	token := issuer.Token("ann", gatewayURL, nil)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 50 {
		wg.Go(func() {
			if _, err := chain.Identify(withToken(t, token), reports()); err != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 || issuer.Requests("/keys") != 1 {
		t.Errorf("%d of 50 failed, %d readings; want 0 and 1", failed.Load(), issuer.Requests("/keys"))
	}
}

// TestBackOff counts the readings of an issuer that is away, on a fake clock.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		var fail atomic.Bool
		fail.Store(true)
		keys := auth.NewKeys(auth.KeysOptions{
			Source: func(context.Context) ([]byte, error) {
				at = append(at, time.Since(start))
				if fail.Load() {
					return nil, errors.New("away")
				}
				return []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`), nil
			},
			Interval: 10 * time.Second, RetryMin: time.Second, Unknown: time.Second, Timeout: time.Second, Now: time.Now, Log: zap.NewNop(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- keys.Run(ctx) }()
		bubble.Advance(26 * time.Second)
		fail.Store(false)
		bubble.Advance(25 * time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
		want := []time.Duration{0, 1, 3, 7, 15, 25, 35, 45}
		if len(at) != len(want) {
			t.Fatalf("read at %v, want seconds %v", at, want)
		}
		for i := range want {
			if at[i] != want[i]*time.Second {
				t.Errorf("reading %d was at %v, want %ds", i, at[i], want[i])
			}
		}
	})
}

func TestKeySources(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	impostor := authtest.NewIssuer(t) // publishes metadata of its own
	dir := t.TempDir()
	raw, err := auth.KeysFromURL(http.DefaultClient, issuer.URL+"/keys")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := auth.KeysFromFile(filepath.Join(dir, "keys.json"))(t.Context()); err != nil || string(got) != string(raw) {
		t.Errorf("file: got %q, %v", got, err)
	}
	if got, err := auth.KeysFromIssuer(http.DefaultClient, issuer.URL)(t.Context()); err != nil || string(got) != string(raw) {
		t.Errorf("issuer: got %q, %v", got, err)
	}
	if _, err := auth.KeysFromIssuer(http.DefaultClient, impostor.URL+"/")(t.Context()); err == nil || !strings.Contains(err.Error(), "it is that of issuer") {
		t.Errorf("metadata of another issuer were taken: %v", err)
	}
	if _, err := auth.KeysFromURL(http.DefaultClient, issuer.URL+"/none")(t.Context()); err == nil {
		t.Error("a 404 was taken for keys")
	}
}
