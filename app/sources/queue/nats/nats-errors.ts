/** Errors of the client of NATS as faults of a queue. They are known by their names: not each class is exported. */
import type { NatsQueue } from '../../../../domain/delivery/queue-source.ts';
import type { ErrorCode } from '../../../../domain/errors/codes.ts';
import { CodedError, isCodedError } from '../../../../domain/errors/coded-error.ts';

type QueueCode = Extract<ErrorCode, `queue/${string}`>;

const CODES: Readonly<Record<string, QueueCode>> = {
  AuthorizationError: 'queue/login-refused',
  UserAuthenticationExpiredError: 'queue/login-refused',
  PermissionViolationError: 'queue/login-refused',
  StreamNotFoundError: 'queue/no-stream',
  JetStreamNotEnabled: 'queue/no-stream',
  ConsumerNotFoundError: 'queue/bad-consumer',
};

/** @param error  absent: the connection ended without a reason */
export function toQueueError(error: unknown, { stream, consumer }: Pick<NatsQueue, 'stream' | 'consumer'>): CodedError {
  if (isCodedError(error)) return error;
  if (!(error instanceof Error)) return new CodedError('queue/unreachable', 'the server has ended the connection');
  const code = findCode(error) ?? (error.cause instanceof Error ? findCode(error.cause) : null) ?? 'queue/unreachable';
  // The name of the consumer is no secret, and the texts of the client do not have it.
  const where =
    code === 'queue/no-stream' || code === 'queue/bad-consumer' ? `consumer ${consumer} of stream ${stream}: ` : '';
  return new CodedError(code, `${where}${error.message}${describeCause(error)}`, { cause: error });
}

function findCode({ name }: Error): QueueCode | null {
  return Object.hasOwn(CODES, name) ? CODES[name]! : null;
}

/** The reason of Node, such as ECONNREFUSED with the address. */
function describeCause({ cause, message }: Error): string {
  return cause instanceof Error && cause.message !== '' && !message.includes(cause.message)
    ? ` (${cause.message})`
    : '';
}
