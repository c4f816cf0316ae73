import { findHeaderRefusal, type HookScheme, readOnce, readSenderId } from './hook-request.ts';
import { dropEmptySecrets, compareSecretly } from './signatures.ts';

const TOKEN = 'x-gitlab-token';
/** GitLab sends it again with each repetition of a delivery. */
const DELIVERY = 'idempotency-key';

/** The secret token of GitLab, which it sends as it is. It proves the sender, and nothing about the body. */
export const GITLAB: HookScheme = {
  verify({ headers }, secrets) {
    const tokens = dropEmptySecrets(secrets);
    if (tokens.length === 0) return 'no-secret';
    const refusal = findHeaderRefusal(headers, [TOKEN]);
    if (refusal !== null) return refusal;
    const given = Buffer.from(readOnce(headers, TOKEN)!, 'latin1');
    const isRight = tokens.map((token) => compareSecretly(given, Buffer.from(token)));
    return isRight.includes(true) ? null : 'wrong';
  },
  findSenderId: ({ headers }) => readSenderId(readOnce(headers, DELIVERY)),
  sign: ({ id }, secret) => ({ [TOKEN]: Buffer.from(secret).toString('latin1'), [DELIVERY]: id }),
};
