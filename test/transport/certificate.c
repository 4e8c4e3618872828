#include "certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "check.h"

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension != NULL);
    CHECK_EQ(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static FILE *file_find(const char *folder, const char *name, const char *end, const char *mode)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, end);
    FILE *f = fopen(path, mode);
    CHECK(f != NULL);
    return f;
}

static void write_files(const char *folder, const char *name, X509 *cert, EVP_PKEY *key)
{
    FILE *f = file_find(folder, name, "pem", "w");
    CHECK_EQ(PEM_write_X509(f, cert), 1);
    fclose(f);
    f = file_find(folder, name, "key", "w");
    CHECK_EQ(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
}

/* issuer NULL: itself. */
static X509 *cert_new(EVP_PKEY *key, const char *subject, long end_seconds, X509 *issuer, EVP_PKEY *issuer_key)
{
    X509 *cert = X509_new();
    CHECK(cert != NULL);
    CHECK_EQ(X509_set_version(cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), issuer == NULL ? 1 : 2);
    X509_gmtime_adj(X509_getm_notBefore(cert), end_seconds - 86400);
    X509_gmtime_adj(X509_getm_notAfter(cert), end_seconds);
    X509_NAME *name = X509_get_subject_name(cert);
    CHECK_EQ(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1, 0), 1);
    CHECK_EQ(X509_set_issuer_name(cert, issuer == NULL ? name : X509_get_subject_name(issuer)), 1);
    CHECK_EQ(X509_set_pubkey(cert, key), 1);
    add_extension(cert, NID_basic_constraints, issuer == NULL ? "critical,CA:TRUE" : "critical,CA:FALSE");
    add_extension(cert, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    CHECK(X509_sign(cert, issuer == NULL ? key : issuer_key, EVP_sha256()) > 0);
    return cert;
}

void certificate_make(const char *folder, const char *name, long end_seconds)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    CHECK(key != NULL);
    X509 *cert = cert_new(key, "localhost", end_seconds, NULL, NULL);
    write_files(folder, name, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void certificate_make_client(const char *folder, const char *name, const char *issuer_name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *f = file_find(folder, issuer_name, "pem", "r");
    X509 *issuer = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    f = file_find(folder, issuer_name, "key", "r");
    EVP_PKEY *issuer_key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    CHECK(key != NULL && issuer != NULL && issuer_key != NULL);
    X509 *cert = cert_new(key, "postrider", 3600, issuer, issuer_key);
    write_files(folder, name, cert, key);
    X509_free(cert);
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
    EVP_PKEY_free(key);
}
