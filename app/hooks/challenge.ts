/** Questions by which a sender finds out whether a URL belongs to its receiver. Such a request is no event. */
import { createHash } from 'node:crypto';
import type { WebhookVerify } from '../../domain/delivery/trigger.ts';
import { readBodyText } from './hook-request.ts';
import { dropEmptySecrets, compareSecretly } from './signatures.ts';

/** A challenge is a part of the answer, so it is a text that no program takes for anything else. */
const CHALLENGE = /^[\w.-]{1,256}$/;

/** Returns the answer to Slack's `url_verification`; null: the verified request is an event. */
export function findSlackChallenge(verify: WebhookVerify, body: Uint8Array): string | null {
  if (verify.scheme !== 'slack' || readBodyText(body, 'type') !== 'url_verification') return null;
  const challenge = readBodyText(body, 'challenge');
  return challenge !== null && CHALLENGE.test(challenge) ? challenge : null;
}

/** Meta's signature is an HMAC in this header. Its `GET` asks with a token that the owner of the app has chosen. */
const META_HEADER = 'x-hub-signature-256';

/** Whether the sender of a trigger can be Meta. */
export function mayBeMeta(verify: WebhookVerify): boolean {
  return verify.scheme === 'hmac' && verify.header === META_HEADER && verify.algorithm === 'sha256';
}

export interface MetaQuestion {
  readonly mode: string | null;
  readonly token: string | null;
  readonly challenge: string | null;
}

/**
 * Answers Meta's question, if its token is made of a secret.
 * @returns null: the question is refused
 */
export function answerMeta({ mode, token, challenge }: MetaQuestion, secrets: readonly string[]): string | null {
  const given = Buffer.from(token ?? '');
  const isRight = dropEmptySecrets(secrets).map((secret) => compareSecretly(given, Buffer.from(makeMetaToken(secret))));
  if (mode !== 'subscribe' || !isRight.includes(true)) return null;
  return challenge !== null && CHALLENGE.test(challenge) ? challenge : null;
}

/** The token is in a URL, which proxies record. So it is no secret, and no signature of any body can be made of it. */
export function makeMetaToken(secret: string): string {
  return createHash('sha256').update(`hub.verify_token:${secret}`).digest('hex');
}
