/** The schemes by which triggers name them. */
import type { NamedScheme, WebhookVerify } from '../../domain/delivery/trigger.ts';
import { GITHUB } from './github.ts';
import { GITLAB } from './gitlab.ts';
import { createHmacScheme } from './hmac-scheme.ts';
import type { HookScheme } from './hook-request.ts';
import { SLACK } from './slack.ts';
import { STANDARD_WEBHOOKS } from './standard-webhooks.ts';
import { STRIPE } from './stripe.ts';

const NAMED: Readonly<Record<NamedScheme, HookScheme>> = {
  github: GITHUB,
  gitlab: GITLAB,
  stripe: STRIPE,
  slack: SLACK,
  'standard-webhooks': STANDARD_WEBHOOKS,
};

const NONE: HookScheme = { verify: () => null, findSenderId: () => null, sign: () => ({}) };

export function chooseScheme(verify: WebhookVerify): HookScheme {
  if (verify.scheme === 'none') return NONE;
  return verify.scheme === 'hmac' ? createHmacScheme(verify) : NAMED[verify.scheme];
}
