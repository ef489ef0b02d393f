package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// JWTOptions say which tokens are good and whom they name.
type JWTOptions struct {
	// Issuer is the exact value of iss. A token of another issuer is none of this
	// authenticator's.
	Issuer string
	// Audience lists values of aud that are good at every resource. The URL of
	// the resource itself, and that of the gateway, always are.
	Audience []string
	// Algorithms are those that may sign, all of them asymmetric.
	Algorithms []string
	// Leeway is how far clocks may be apart.
	Leeway time.Duration
	// SubjectClaim and TenantClaim name the claims of the principal; with
	// TenantClaim "" the tenant is Tenant.
	SubjectClaim string
	TenantClaim  string
	Tenant       string
	// ScopesClaim is a string of words or an array of them; "": scope, else scp.
	ScopesClaim string

	Keys *Keys
	Now  func() time.Time
}

// JWT accepts access tokens of one issuer (RFC 9068, RFC 8725).
type JWT struct {
	opts   JWTOptions
	parser *jwt.Parser
}

// NewJWT returns an authenticator for bearer tokens that are signed JWTs.
func NewJWT(o JWTOptions) *JWT {
	return &JWT{opts: o, parser: jwt.NewParser(
		jwt.WithValidMethods(o.Algorithms), jwt.WithIssuer(o.Issuer), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(o.Leeway), jwt.WithTimeFunc(o.Now), jwt.WithStrictDecoding(),
	)}
}

// Authenticate implements Authenticator.
func (j *JWT) Authenticate(req *http.Request, at *Resource) (Identity, error) {
	token, err := bearer(req)
	if err != nil {
		return Identity{}, err
	}
	if !looksLikeJWT(token) || !j.issued(token) {
		return Identity{}, ErrNone
	}
	claims := jwt.MapClaims{}
	if err := j.verify(req, token, claims); err != nil {
		return Identity{}, err
	}
	if !j.meantFor(claims, at) {
		return Identity{}, invalidToken("the access token was issued for another resource")
	}
	return j.identity(token, claims)
}

// issued looks at iss before anything is verified, to find out whose token it is.
func (j *JWT) issued(token string) bool {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		Issuer string `json:"iss"`
	}
	return err == nil && json.Unmarshal(raw, &claims) == nil && claims.Issuer == j.opts.Issuer
}

func (j *JWT) verify(req *http.Request, token string, claims jwt.MapClaims) error {
	_, err := j.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok { // RFC 7515, section 4.1.11: nothing in it is understood here
			return nil, errors.New("critical header")
		}
		return j.opts.Keys.find(req.Context(), t)
	})
	var unavailable *UnavailableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unavailable):
		return unavailable
	case errors.Is(err, jwt.ErrTokenExpired):
		return invalidToken("the access token has expired")
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return invalidToken("the access token is not valid yet")
	case errors.Is(err, errUnknownKey):
		return invalidToken("the access token is signed with a key that its issuer does not list")
	}
	return invalidToken("the access token is not valid")
}

// meantFor binds the token to this resource (RFC 8707, section 2): a token for
// something else is not taken, whoever signed it.
func (j *JWT) meantFor(claims jwt.MapClaims, at *Resource) bool {
	audience, err := claims.GetAudience()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(audience, func(a string) bool {
		return a != "" && (at.isNamed(a) || slices.Contains(j.opts.Audience, a))
	})
}

func (j *JWT) identity(token string, claims jwt.MapClaims) (Identity, error) {
	id := Identity{Method: "jwt", Token: token}
	var err error
	if id.Subject, err = text(claims, j.opts.SubjectClaim); err != nil {
		return Identity{}, err
	}
	if id.Tenant = j.opts.Tenant; j.opts.TenantClaim != "" {
		if id.Tenant, err = text(claims, j.opts.TenantClaim); err != nil {
			return Identity{}, err
		}
	}
	if exp, err := claims.GetExpirationTime(); err == nil && exp != nil {
		id.Expires = exp.Time
	}
	id.Scopes = j.scopes(claims)
	return id, nil
}

func text(claims jwt.MapClaims, name string) (string, error) {
	s, ok := claims[name].(string)
	if !ok {
		return "", invalidToken(fmt.Sprintf("the access token has no claim %s that is text", name))
	}
	return s, nil
}

func (j *JWT) scopes(claims jwt.MapClaims) []string {
	if j.opts.ScopesClaim != "" {
		return words(claims[j.opts.ScopesClaim])
	}
	if v, ok := claims["scope"]; ok {
		return words(v)
	}
	return words(claims["scp"])
}

func words(claim any) []string {
	switch v := claim.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
