package auth_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"

	"taskgate/auth"
	"taskgate/auth/authtest"
)

const gatewayURL = "https://mcp.example.com"

// reports is the resource of most tests.
func reports() *auth.Resource {
	return &auth.Resource{URL: gatewayURL + "/reports", Gateway: gatewayURL}
}

func keysOf(i *authtest.Issuer) *auth.Keys {
	return auth.NewKeys(auth.KeysOptions{
		Source: auth.KeysFromIssuer(http.DefaultClient, i.URL), Interval: time.Hour, RetryMin: time.Second,
		Unknown: time.Millisecond, Timeout: 10 * time.Second, Now: time.Now, Log: zap.NewNop(),
	})
}

func jwtOptions(i *authtest.Issuer) auth.JWTOptions {
	return auth.JWTOptions{
		Issuer: i.URL, Algorithms: []string{"RS256", "ES256"}, Leeway: 30 * time.Second,
		SubjectClaim: "sub", Tenant: "acme", Keys: keysOf(i), Now: time.Now,
	}
}

func request(t *testing.T, header ...string) *http.Request {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/reports", nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func withToken(t *testing.T, token string) *http.Request {
	return request(t, "Authorization", "Bearer "+token)
}

// refusedBecause checks that err is a 401 with this reason.
func refusedBecause(t *testing.T, err error, reason string) {
	t.Helper()
	var denied *auth.Denied
	if !errors.As(err, &denied) || denied.Status != http.StatusUnauthorized {
		t.Errorf("got %v, want a 401", err)
		return
	}
	if denied.Reason != reason {
		t.Errorf("got the reason %q, want %q", denied.Reason, reason)
	}
}

func TestJWTNamesItsBearer(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	ec := issuer.AddEC("ec-1")
	exp := time.Now().Add(time.Minute).Truncate(time.Second)
	tests := []struct {
		name    string
		options func(*auth.JWTOptions)
		token   string
		want    auth.Identity
	}{
		{"RSA", nil, issuer.Token("ann", gatewayURL+"/reports", nil), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}}},
		{"EC", nil, issuer.Sign(ec, issuer.Claims("ann", gatewayURL+"/reports", nil)), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}}},
		{"for the gateway as a whole", nil, issuer.Token("ann", gatewayURL, nil), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}}},
		{"one audience of several", nil, issuer.Token("ann", "", jwt.MapClaims{"aud": []string{"other", gatewayURL + "/reports"}}), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}}},
		{
			"an audience by configuration", func(o *auth.JWTOptions) { o.Audience = []string{"api://taskgate"} },
			issuer.Token("ann", "api://taskgate", nil), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}},
		},
		{
			"claims of one's own", func(o *auth.JWTOptions) {
				o.Tenant, o.TenantClaim, o.SubjectClaim, o.ScopesClaim = "", "https://example.com/org", "email", "roles"
			},
			issuer.Token("1", gatewayURL, jwt.MapClaims{"https://example.com/org": "globex", "email": "ann@globex.example", "roles": []string{"reader", "writer"}}),
			auth.Identity{Principal: auth.Principal{Tenant: "globex", Subject: "ann@globex.example"}, Scopes: []string{"reader", "writer"}},
		},
		{"scope", nil, issuer.Token("ann", gatewayURL, jwt.MapClaims{"scope": "a b", "scp": "no"}), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}, Scopes: []string{"a", "b"}}},
		{"scp", nil, issuer.Token("ann", gatewayURL, jwt.MapClaims{"scp": []any{"a", "b"}}), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}, Scopes: []string{"a", "b"}}},
		{"within the leeway", nil, issuer.Token("ann", gatewayURL, jwt.MapClaims{"exp": time.Now().Add(-20 * time.Second).Unix(), "nbf": time.Now().Add(20 * time.Second).Unix()}), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}}},
		{"its end", nil, issuer.Token("ann", gatewayURL, jwt.MapClaims{"exp": exp.Unix()}), auth.Identity{Principal: auth.Principal{Tenant: "acme", Subject: "ann"}, Expires: exp}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := jwtOptions(issuer)
			if tt.options != nil {
				tt.options(&o)
			}
			got, err := auth.NewChain(nil, auth.NewJWT(o)).Identify(withToken(t, tt.token), reports())
			if err != nil {
				t.Fatal(err)
			}
			if got.Principal != tt.want.Principal || !slices.Equal(got.Scopes, tt.want.Scopes) || got.Token != tt.token || got.Method != "jwt" {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if !tt.want.Expires.IsZero() && !got.Expires.Equal(tt.want.Expires) {
				t.Errorf("got its end at %v, want %v", got.Expires, tt.want.Expires)
			}
		})
	}
}

const notKnown = "the credential is of no kind that is known here"

func TestJWTRefuses(t *testing.T) {
	issuer, other := authtest.NewIssuer(t), authtest.NewIssuer(t)
	rsaKey := issuer.AddRSA("rsa-2")
	stranger := other.AddRSA("rsa-2") // the same id, another key
	good := func(changes jwt.MapClaims) string { return issuer.Token("ann", gatewayURL, changes) }
	parts := strings.Split(good(nil), ".")
	past := time.Now().Add(-time.Minute).Unix()

	tests := []struct {
		name   string
		token  string
		reason string
	}{
		{"expired", good(jwt.MapClaims{"exp": past}), "the access token has expired"},
		{"no end", good(jwt.MapClaims{"exp": nil}), "the access token is not valid"},
		{"not yet valid", good(jwt.MapClaims{"nbf": time.Now().Add(time.Minute).Unix()}), "the access token is not valid yet"},
		{"issued in the future", good(jwt.MapClaims{"iat": time.Now().Add(time.Minute).Unix()}), "the access token is not valid yet"},
		{"for another resource", good(jwt.MapClaims{"aud": "https://other.example.com"}), "the access token was issued for another resource"},
		{"for another endpoint of the gateway", good(jwt.MapClaims{"aud": gatewayURL + "/billing"}), "the access token was issued for another resource"},
		{"for a resource whose name only begins the same", good(jwt.MapClaims{"aud": gatewayURL + "/reports/x"}), "the access token was issued for another resource"},
		{"for nobody in particular", good(jwt.MapClaims{"aud": nil}), "the access token was issued for another resource"},
		{"for an empty audience", good(jwt.MapClaims{"aud": ""}), "the access token was issued for another resource"},
		{"audience of a wrong type", good(jwt.MapClaims{"aud": 7}), "the access token was issued for another resource"},
		{"of another issuer", other.Token("ann", gatewayURL, nil), notKnown},
		{"of another issuer that lies", other.Sign(stranger, issuer.Claims("ann", gatewayURL, nil)), "the access token is not valid"},
		{"with a key that nobody knows", issuer.Sign(&authtest.Key{ID: "?", Method: rsaKey.Method, Signer: rsaKey.Signer}, issuer.Claims("ann", gatewayURL, nil)), "the access token is signed with a key that its issuer does not list"},
		{"no subject", good(jwt.MapClaims{"sub": nil}), "the access token has no claim sub that is text"},
		{"empty subject", good(jwt.MapClaims{"sub": ""}), "the credential names no subject"},
		{"subject of a wrong type", good(jwt.MapClaims{"sub": 7}), "the access token has no claim sub that is text"},
		{"subject with a line break", good(jwt.MapClaims{"sub": "ann\nadmin"}), "the subject holds characters that a name cannot have"},
		{"subject that is too long", good(jwt.MapClaims{"sub": strings.Repeat("a", 513)}), "the subject is longer than 512 bytes"},
		{"changed claims", parts[0] + "." + encode(`{"iss":"`+issuer.URL+`","sub":"root","aud":"`+gatewayURL+`","exp":4102444800}`) + "." + parts[2], "the access token is not valid"},
		{"no signature", parts[0] + "." + parts[1] + ".", "the access token is not valid"},
		{"algorithm none", encode(`{"alg":"none","typ":"JWT"}`) + "." + parts[1] + ".", "the access token is not valid"},
		{"algorithm by the attacker's key in the header", issuerTokenWithHeader(t, issuer, stranger, "jwk", stranger.Signer.Public()), "the access token is not valid"},
		{"keys by the attacker's URL in the header", issuerTokenWithHeader(t, issuer, stranger, "jku", other.URL+"/keys"), "the access token is not valid"},
		{"a critical header", issuerTokenWithHeader(t, issuer, rsaKey, "crit", []string{"b64"}), "the access token is not valid"},
		{"an algorithm that is not configured", issuer.Sign(&authtest.Key{ID: rsaKey.ID, Method: jwt.SigningMethodRS512, Signer: rsaKey.Signer}, issuer.Claims("ann", gatewayURL, nil)), "the access token is not valid"},
		{"the public key as a shared secret", hmacWithPublicKey(t, issuer, rsaKey), "the access token is not valid"},
		{"not a JWT", "opaque", notKnown},
		{"four parts", good(nil) + ".x", notKnown},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", "the access token is not valid"},
	}
	o := jwtOptions(issuer)
	chain := auth.NewChain(nil, auth.NewJWT(o))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := chain.Identify(withToken(t, tt.token), reports())
			refusedBecause(t, err, tt.reason)
			if strings.Contains(err.Error(), tt.token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func issuerTokenWithHeader(t *testing.T, i *authtest.Issuer, k *authtest.Key, name string, value any) string {
	t.Helper()
	token := jwt.NewWithClaims(k.Method, i.Claims("ann", gatewayURL, nil))
	token.Header["kid"], token.Header[name] = k.ID, value
	s, err := token.SignedString(k.Signer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hmacWithPublicKey signs with what everybody can download, as if it were a
// shared secret.
func hmacWithPublicKey(t *testing.T, i *authtest.Issuer, k *authtest.Key) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, i.Claims("ann", gatewayURL, nil))
	token.Header["kid"] = k.ID
	s, err := token.SignedString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBearerTokenIsReadFromOneHeaderOnly(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	token := issuer.Token("ann", gatewayURL, nil)
	chain := auth.NewChain(nil, auth.NewJWT(jwtOptions(issuer)))

	if _, err := chain.Identify(request(t, "Authorization", "bearer "+token), reports()); err != nil {
		t.Errorf("the scheme's case matters: %v", err)
	}
	_, err := chain.Identify(request(t, "Authorization", "Bearer "+token, "Authorization", "Bearer "+token), reports())
	refusedBecause(t, err, "the header Authorization was sent more than once")
	_, err = chain.Identify(request(t, "Authorization", "Basic "+token), reports())
	refusedBecause(t, err, notKnown)
	_, err = chain.Identify(httptest.NewRequest(http.MethodPost, "/reports?access_token="+token, nil), reports())
	refusedBecause(t, err, "the request carries no credential")
}
