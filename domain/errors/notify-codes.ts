import type { ErrorCodeInfo } from './code-info.ts';

/** Why a notification was not sent. */
export const NOTIFY_CODES = {
  'notify/closed-address': {
    kind: 'notification',
    retry: 'never',
    summary:
      'The receiver has an address of this machine or of a private network, or a URL without TLS. The service sends nothing there unless its operator opens the host.',
    remedy: 'If the receiver is yours, open its host: `voidbox up --allow-notify HOST`, or the same option of `serve`.',
  },
  'notify/bad-redirect': {
    kind: 'notification',
    retry: 'never',
    summary:
      'The receiver redirects too often, to something that is not a URL, or with a status that would turn the POST into a GET.',
    remedy: 'Write the final URL of the receiver in `notify`, and deploy again. Then replay the notification.',
  },
  'notify/bad-answer': {
    kind: 'notification',
    retry: 'never',
    summary: 'The receiver answered with a status that is not 2xx.',
    remedy:
      'Look into the log of the receiver. The service tries again for 24 hours; then run `voidbox notification replay ID`.',
  },
  'notify/no-answer': {
    kind: 'notification',
    retry: 'never',
    summary: 'The receiver could not be reached, or did not answer in time.',
    remedy:
      'Look at the receiver and its network. The service tries again for 24 hours; then run `voidbox notification replay ID`.',
  },
  'notify/bad-secret': {
    kind: 'notification',
    retry: 'never',
    summary: 'The secret of the receiver is missing, cannot be read or has another form than the receiver needs.',
    remedy:
      'Set it: `voidbox secret set NAME --deployment NAME`. For a webhook it is base64, for `slack` a URL, for `cloudevents` visible characters.',
  },
  'notify/no-receiver': {
    kind: 'notification',
    retry: 'never',
    summary: 'The enabled version of the deployment has no receiver of this name, or the deployment was deleted.',
    remedy: 'Deploy a spec with the receiver, and replay the notification.',
  },
} as const satisfies Readonly<Record<string, ErrorCodeInfo>>;
