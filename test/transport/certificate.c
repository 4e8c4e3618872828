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

static FILE *file_open(const char *folder, const char *name, const char *end)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, end);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    return f;
}

void certificate_make(const char *folder, const char *name, long end_seconds)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    CHECK(key != NULL && cert != NULL);
    CHECK_EQ(X509_set_version(cert, X509_VERSION_3), 1);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), end_seconds - 86400);
    X509_gmtime_adj(X509_getm_notAfter(cert), end_seconds);
    X509_NAME *subject = X509_get_subject_name(cert);
    CHECK_EQ(
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0),
        1);
    CHECK_EQ(X509_set_issuer_name(cert, subject), 1);
    CHECK_EQ(X509_set_pubkey(cert, key), 1);
    add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(cert, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *f = file_open(folder, name, "pem");
    CHECK_EQ(PEM_write_X509(f, cert), 1);
    fclose(f);
    f = file_open(folder, name, "key");
    CHECK_EQ(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}
