package app

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"taskgate/config"
	"taskgate/internal/livefile"
	"taskgate/upstream"
)

// How tokens for upstreams are kept.
const (
	exchangeCache  = 10_000
	exchangeMargin = 30 * time.Second
)

// newUpstreamAuth makes what identifies requests to an upstream; nil: nothing
// does but its headers.
func newUpstreamAuth(a config.UpstreamAuth, u *upkeep, log *zap.Logger) (upstream.Auth, error) {
	switch a.Mode {
	case config.AuthStatic:
		return newStatic(a.Token, u, log)
	case config.AuthForward:
		log.Warn("the access tokens of clients are passed on; that is right only when they are meant for this upstream too")
		return upstream.Forward{Now: time.Now}, nil
	case config.AuthExchange:
		x, err := upstream.NewExchange(upstream.ExchangeOptions{
			TokenURL: a.TokenURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret.Value(), SecretInBody: a.SecretIn == config.SecretInBody,
			Audience: a.Audience, Resource: a.Resource, Scopes: a.Scopes,
			Margin: exchangeMargin, Timeout: issuerTimeout, Cache: exchangeCache, Client: outsideClient(), Now: time.Now,
		})
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		return x, nil
	}
	return nil, nil
}

// newStatic follows a token that is in a file.
func newStatic(token config.Secret, u *upkeep, log *zap.Logger) (upstream.Auth, error) {
	path, ok := token.File()
	if !ok {
		return upstream.Static{Token: token.Value, Reload: func() (bool, error) { return false, nil }}, nil
	}
	f, err := livefile.Open(func(contents [][]byte) (string, error) {
		token := string(bytes.TrimSpace(contents[0]))
		if token == "" {
			return "", errors.New("it is empty")
		}
		return token, nil
	}, path)
	if err != nil {
		return nil, fmt.Errorf("auth.token: %w", err)
	}
	follow(u, f, "upstream token", log)
	return upstream.Static{Token: f.Get, Reload: f.Reload}, nil
}

// newUpstreamTLS follows the certificates for an upstream; nil: nothing is said of them.
func newUpstreamTLS(t config.UpstreamTLS, u *upkeep, log *zap.Logger) (func() *tls.Config, error) {
	var paths []string
	for _, p := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	f, err := livefile.Open(func(contents [][]byte) (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.CAFile != "" {
			c.RootCAs = x509.NewCertPool()
			if !c.RootCAs.AppendCertsFromPEM(contents[0]) {
				return nil, errors.New("it holds no certificate")
			}
			contents = contents[1:]
		}
		if t.CertFile == "" {
			return c, nil
		}
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		c.Certificates = []tls.Certificate{pair}
		return c, err
	}, paths...)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	follow(u, f, "upstream certificates", log)
	return f.Get, nil
}

// needsClient tells whether calls carry what only the client has.
func needsClient(list []config.ForwardHeader) bool {
	for _, f := range list {
		if !f.Keep {
			return true
		}
	}
	return false
}

// perClient tells whether the upstream wants a token that only a client has.
func perClient(a config.UpstreamAuth) bool {
	return a.Mode == config.AuthForward || a.Mode == config.AuthExchange
}
