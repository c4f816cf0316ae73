import type { ErrorCodeInfo } from './code-info.ts';

/** Why the service does not read a queue. No run and no delivery ends with one of these. */
export const QUEUE_CODES = {
  'queue/not-allowed': defineQueueCode(
    'The operator of the service no longer allows a server of the queue.',
    'As the operator: voidbox up --allow-queue HOST:PORT. Or pause the deployment.',
  ),
  'queue/no-secret': defineQueueCode(
    'A secret of the login of the queue no longer exists, or cannot be read.',
    'Set it again: voidbox secret set NAME --deployment DEPLOYMENT',
  ),
  'queue/unreachable': defineQueueCode(
    'No server of the queue can be reached, its certificate is not trusted, or the connection is lost.',
    'Check the addresses in `servers`, the network and the certificate. A server of a private authority needs `tls_ca`.',
  ),
  'queue/login-refused': defineQueueCode(
    'The server of the queue refuses the login, or does not let it use the stream.',
    'Compare the secrets of the login with the server. It needs the rights that docs/reference/deliveries.md lists.',
  ),
  'queue/no-stream': defineQueueCode(
    'The server has no such stream, or has no JetStream.',
    'Make the stream on the server, or correct `stream`.',
  ),
  'queue/bad-consumer': defineQueueCode(
    'The durable consumer has settings with which messages could be lost, or another subject than the trigger.',
    'Change the consumer as the message says, or name another one in `consumer`: the service then makes it.',
  ),
  'queue/too-many': defineQueueCode(
    'The service reads as many queues as it can.',
    'Delete or pause deployments with queues, or deploy them to another service.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineQueueCode(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'world'; readonly retry: 'never' } {
  return { kind: 'world', retry: 'never', summary, remedy };
}
