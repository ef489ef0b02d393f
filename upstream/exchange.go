package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// ExchangeOptions say where and for what a client's token is exchanged
// (RFC 8693).
type ExchangeOptions struct {
	TokenURL     string
	ClientID     string
	ClientSecret string
	// SecretInBody sends id and secret in the form instead of HTTP Basic.
	SecretInBody bool
	// Audience, Resource and Scopes ask for a token for this upstream; each may
	// be empty.
	Audience string
	Resource string
	Scopes   []string
	// Margin is how long before its end a token is replaced.
	Margin time.Duration
	// Timeout bounds a request to the token endpoint.
	Timeout time.Duration
	// Cache is how many tokens are kept.
	Cache int

	Client *http.Client
	Now    func() time.Time
}

// Exchange gets a token for the upstream in exchange for the client's. Tokens
// are kept until shortly before they end; requests for the same one share the
// asking.
type Exchange struct {
	opts    ExchangeOptions
	tokens  *lru.Cache[tokenKey, *oauth2.Token]
	asking  *flights[tokenKey, *oauth2.Token]
	running sync.WaitGroup
}

// tokenKey stands for a client's token, so that the cache does not hold it.
type tokenKey [sha256.Size]byte

// NewExchange returns an Auth by token exchange.
func NewExchange(o ExchangeOptions) (*Exchange, error) {
	cache, err := lru.New[tokenKey, *oauth2.Token](o.Cache)
	if err != nil {
		return nil, fmt.Errorf("token cache: %w", err)
	}
	x := &Exchange{opts: o, tokens: cache}
	x.asking = newFlights[tokenKey, *oauth2.Token](&x.running)
	return x, nil
}

// Authorize implements Auth.
func (x *Exchange) Authorize(ctx context.Context, h http.Header) error {
	c := credentialsOf(ctx)
	if c == nil || c.Token == "" {
		_, err := liveToken(ctx, x.opts.Now())
		return err
	}
	key := tokenKey(sha256.Sum256([]byte(c.Token)))
	token, ok := x.tokens.Get(key)
	if !ok || !x.good(token) {
		var err error
		if token, err = x.asking.do(ctx, key, func(ctx context.Context) (*oauth2.Token, error) { return x.ask(ctx, key) }); err != nil {
			return err
		}
	}
	setBearer(h, token.AccessToken)
	return nil
}

// Renew implements Auth.
func (x *Exchange) Renew(ctx context.Context, h http.Header) bool {
	c := credentialsOf(ctx)
	if c == nil {
		return false
	}
	key := tokenKey(sha256.Sum256([]byte(c.Token)))
	if token, ok := x.tokens.Get(key); ok && h.Get("Authorization") == "Bearer "+token.AccessToken {
		x.tokens.Remove(key)
	}
	_, err := liveToken(ctx, x.opts.Now())
	return err == nil
}

// good tells a token that need not be replaced yet.
func (x *Exchange) good(t *oauth2.Token) bool {
	return t.Expiry.IsZero() || x.opts.Now().Add(x.opts.Margin).Before(t.Expiry)
}

// ask gets a new token: for the client's own while that is good, later by the
// refresh token, if there was one.
func (x *Exchange) ask(ctx context.Context, key tokenKey) (*oauth2.Token, error) {
	old, cached := x.tokens.Get(key)
	if cached && x.good(old) {
		return old, nil // somebody else has just asked
	}
	subject, err := liveToken(ctx, x.opts.Now())
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, x.opts.Client), x.opts.Timeout)
	defer cancel()
	var token *oauth2.Token
	switch {
	case err == nil:
		token, err = x.exchange(ctx, subject)
	case cached && old.RefreshToken != "":
		token, err = x.refresh(ctx, old)
	default:
		return nil, err
	}
	if err != nil {
		return nil, tokenError(err)
	}
	if token.Expiry.IsZero() { // then it is good for as long as what it was made of
		token.Expiry = credentialsOf(ctx).Expires
	}
	x.tokens.Add(key, token)
	return token, nil
}

func (x *Exchange) style() oauth2.AuthStyle {
	if x.opts.SecretInBody {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

func (x *Exchange) exchange(ctx context.Context, subject string) (*oauth2.Token, error) {
	params := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token":      {subject},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
	}
	for name, value := range map[string]string{"audience": x.opts.Audience, "resource": x.opts.Resource} {
		if value != "" {
			params.Set(name, value)
		}
	}
	c := clientcredentials.Config{
		TokenURL: x.opts.TokenURL, ClientID: x.opts.ClientID, ClientSecret: x.opts.ClientSecret,
		AuthStyle: x.style(), Scopes: x.opts.Scopes, EndpointParams: params,
	}
	return c.Token(ctx)
}

func (x *Exchange) refresh(ctx context.Context, old *oauth2.Token) (*oauth2.Token, error) {
	c := oauth2.Config{
		ClientID: x.opts.ClientID, ClientSecret: x.opts.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: x.opts.TokenURL, AuthStyle: x.style()},
	}
	return c.TokenSource(ctx, &oauth2.Token{RefreshToken: old.RefreshToken}).Token()
}

// tokenError says what the token endpoint did. Its text is left out: it may
// repeat the token.
func tokenError(err error) *Error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return &Error{Kind: Unreachable, Err: fmt.Errorf("token exchange: %w", withoutURL(err))}
	}
	status := refused.Response.StatusCode
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
		return &Error{Kind: Unreachable, Err: fmt.Errorf("token exchange: HTTP %d", status)}
	}
	return unauthorized(fmt.Errorf("token exchange: HTTP %d %.40q", status, refused.ErrorCode))
}
