import { createHmacScheme } from './hmac-scheme.ts';
import { type HookScheme, readOnce, readSenderId } from './hook-request.ts';

const HMAC = createHmacScheme({
  header: 'x-hub-signature-256',
  prefix: 'sha256=',
  algorithm: 'sha256',
  encoding: 'hex',
  timestamp: null,
});

const DELIVERY = 'x-github-delivery';

/** `X-Hub-Signature-256` of GitHub. It signs neither a time nor its delivery id. */
export const GITHUB: HookScheme = {
  verify: HMAC.verify,
  findSenderId: ({ headers }) => readSenderId(readOnce(headers, DELIVERY)),
  sign: (event, secret) => ({ ...HMAC.sign(event, secret), [DELIVERY]: event.id }),
};
