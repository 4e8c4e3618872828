/* certificate.h - an authority and a server's certificate for 127.0.0.1 and localhost, made for one test. */
#ifndef TEST_TRANSPORT_CERTIFICATE_H
#define TEST_TRANSPORT_CERTIFICATE_H

/* Writes FOLDER/PREFIX-ca.pem, -cert.pem and -key.pem; valid from an hour before now for so many seconds from now. */
void certificate_make(const char *folder, const char *prefix, long valid_s);

#endif
