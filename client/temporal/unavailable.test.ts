import { expect, test } from 'vitest';
import { isUnanswered, serverMessageOf } from './unavailable.ts';

/** An error of gRPC, as it is and as the SDK's client wraps it. */
function failures(code: number, details: string): readonly Error[] {
  const raw = Object.assign(new Error(`${code} X: ${details}`), { code, details, metadata: {} });
  return [raw, Object.assign(new Error('Failed to list'), { name: 'ServiceError', cause: raw })];
}

test('a call whose time is over is unanswered, whichever side measured it', () => {
  for (const error of [...failures(4, 'Deadline exceeded after 5s'), ...failures(1, 'Call cancelled')])
    expect(isUnanswered(error), error.message).toBe(true);
  for (const error of [...failures(1, 'Cancelled on client'), ...failures(14, 'Connection dropped'), new Error('x')])
    expect(isUnanswered(error), error.message).toBe(false);
});

test('the message of a call that the server ended names the reason, and other messages stay', () => {
  expect(failures(1, 'Call cancelled').map(serverMessageOf)).toEqual(
    Array(2).fill('the server ended the call, because its time was over'),
  );
  expect(failures(14, 'Connection dropped').map(serverMessageOf)).toEqual(Array(2).fill('Connection dropped'));
});
