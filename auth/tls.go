package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"taskgate/internal/livefile"
)

// TLSOptions say how a listener proves itself and whom it wants to see proof of.
type TLSOptions struct {
	CertFile, KeyFile string
	// ClientCAFile holds the authorities of client certificates; "": none are
	// asked for.
	ClientCAFile string
	// RequireClient refuses connections without one; else they may come without.
	RequireClient bool
	// MinVersion is a constant of crypto/tls, TLS 1.2 or later.
	MinVersion uint16
}

// ListenerFiles are a listener's certificates, followed as the files change.
type ListenerFiles = livefile.File[*tls.Config]

// OpenTLS reads the certificates. The configuration that the connections of the
// moment get is Get of what it returns; ServerTLS follows it.
func OpenTLS(o TLSOptions) (*ListenerFiles, error) {
	paths := []string{o.CertFile, o.KeyFile}
	if o.ClientCAFile != "" {
		paths = append(paths, o.ClientCAFile)
	}
	return livefile.Open(o.parse, paths...)
}

// ServerTLS is the configuration of a listener whose certificates change.
func ServerTLS(files *ListenerFiles) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.Get(), nil },
		// http.Server wants to see a way to a certificate.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &files.Get().Certificates[0], nil },
	}
}

func (o TLSOptions) parse(contents [][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: max(o.MinVersion, tls.VersionTLS12), Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if o.ClientCAFile == "" {
		return c, nil
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(contents[2]) {
		return nil, errors.New("the client CA file holds no certificate")
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if o.RequireClient {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.SessionTicketsDisabled = true // a resumed session would not see that an authority is gone
	return c, nil
}

// TLSVersion is the constant of crypto/tls for "1.2" or "1.3".
func TLSVersion(text string) uint16 {
	if text == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}
