package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates is an authority and two certificates signed by it, as PEM files that exist as long as the test.
type Certificates struct {
	CAFile         string // what a client must trust
	ServerCertFile string // for 127.0.0.1, ::1 and localhost
	ServerKeyFile  string
	ClientCertFile string // common name "redistest client"
	ClientKeyFile  string

	roots  *x509.CertPool
	client tls.Certificate
}

// Client is a new configuration that trusts the authority and shows the client certificate.
func (c *Certificates) Client() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		ServerName:   "localhost",
		RootCAs:      c.roots,
		Certificates: []tls.Certificate{c.client},
	}
}

func (c *Certificates) serverArgs() []string {
	return []string{
		"--tls-cert-file", c.ServerCertFile, "--tls-key-file", c.ServerKeyFile,
		"--tls-ca-cert-file", c.CAFile, "--tls-auth-clients", "optional",
	}
}

// StartTLS is [Start] for a server that speaks TLS only. It accepts clients with and without a certificate; the options
// "--tls-auth-clients", "yes" make the certificate a duty.
func StartTLS(t testing.TB, opts ...string) *Server {
	t.Helper()
	certs, err := MakeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, spec{tls: certs}, opts)
}

// MakeCertificates writes a fresh authority and its certificates to dir, good for a day.
func MakeCertificates(dir string) (*Certificates, error) {
	ca, err := newCert("redistest authority", nil)
	if err != nil {
		return nil, err
	}
	server, err := newCert("localhost", ca)
	if err != nil {
		return nil, err
	}
	client, err := newCert("redistest client", ca)
	if err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		CAFile:         in("ca.pem"),
		ServerCertFile: in("server.pem"), ServerKeyFile: in("server.key"),
		ClientCertFile: in("client.pem"), ClientKeyFile: in("client.key"),
		roots: x509.NewCertPool(),
	}
	c.roots.AddCert(ca.leaf)
	if c.client, err = tls.X509KeyPair(client.certPEM, client.keyPEM); err != nil {
		return nil, err
	}
	for path, data := range map[string][]byte{
		c.CAFile:         ca.certPEM,
		c.ServerCertFile: server.certPEM, c.ServerKeyFile: server.keyPEM,
		c.ClientCertFile: client.certPEM, c.ClientKeyFile: client.keyPEM,
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

type cert struct {
	leaf            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// newCert makes a certificate signed by ca, or an authority when ca is nil.
func newCert(name string, ca *cert) (*cert, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if ca == nil {
		template.IsCA = true
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	} else {
		parent, signer = ca.leaf, ca.key
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		template.DNSNames = []string{"localhost"}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("redistest: certificate %q: %w", name, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &cert{
		leaf: leaf, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
