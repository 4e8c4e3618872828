#include "certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "check.h"

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension != NULL);
    CHECK_EQ(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* issuer NULL: signed by itself. */
static X509 *make(EVP_PKEY *key, const char *name, X509 *issuer, EVP_PKEY *issuer_key, long valid_s)
{
    X509 *cert = X509_new();
    CHECK(cert != NULL);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), issuer != NULL ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600 * 2);
    X509_gmtime_adj(X509_getm_notAfter(cert), valid_s);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                               -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer != NULL ? issuer : cert));
    X509_set_pubkey(cert, key);
    extend(cert, issuer != NULL ? issuer : cert, NID_basic_constraints,
           issuer != NULL ? "CA:FALSE" : "critical,CA:TRUE");
    if (issuer != NULL)
        extend(cert, issuer, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    CHECK(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    return cert;
}

static FILE *create(const char *folder, const char *prefix, const char *what)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s-%s.pem", folder, prefix, what);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    return file;
}

static void write_cert(const char *folder, const char *prefix, const char *what, X509 *cert)
{
    FILE *file = create(folder, prefix, what);
    CHECK_EQ(PEM_write_X509(file, cert), 1);
    CHECK_EQ(fclose(file), 0);
}

void certificate_make(const char *folder, const char *prefix, long valid_s)
{
    EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
    CHECK(ca_key != NULL && key != NULL);
    X509 *ca = make(ca_key, "test authority", NULL, ca_key, 86400);
    X509 *cert = make(key, "localhost", ca, ca_key, valid_s);
    write_cert(folder, prefix, "ca", ca);
    write_cert(folder, prefix, "cert", cert);
    FILE *file = create(folder, prefix, "key");
    CHECK_EQ(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    CHECK_EQ(fclose(file), 0);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
}
