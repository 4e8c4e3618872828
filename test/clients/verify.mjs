// verify.mjs CLIENT: {"secret", "headers", "body"} on standard input; prints the id, or what is wrong.
import fs from "node:fs";
const { verifyWebhook, WebhookError } = await import(process.argv[2]);
const { secret, headers, body } = JSON.parse(fs.readFileSync(0));
try {
  console.log(verifyWebhook(secret, headers, body));
} catch (error) {
  if (!(error instanceof WebhookError)) throw error;
  console.log("refused");
}
