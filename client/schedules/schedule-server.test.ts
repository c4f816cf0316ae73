import { expect, test } from 'vitest';
import { NoServerError } from '../temporal/no-server.ts';
import { createScheduleServer, type ScheduleServer } from './schedule-server.ts';

const NAME = { owner: '0123456789abcdef', deployment: 'd', trigger: 'nightly' };

/** A server whose calls fail with a status of gRPC. */
function openFailing(code: number, details: string): ScheduleServer {
  const failure = Object.assign(new Error(`${code} STATUS: ${details}`), { code, details });
  const client = { workflowService: { listScheduleMatchingTimes: () => Promise.reject(failure) }, options: {} };
  return createScheduleServer({ briefly: async (call) => await call(client as never) });
}

test.each([
  [9, 'no poller seen for task queue recently, worker may be down'],
  [4, 'Deadline exceeded after 1.098s'],
  [14, 'No connection established'],
  [5, 'schedule not found'],
])('a server that cannot list times now, with the status %d, is no bug: %s', async (code, details) => {
  const listing = openFailing(code, details).listTimes(NAME, 0, 1);
  await expect(listing).rejects.toThrow(NoServerError);
  await expect(listing).rejects.toThrow(
    `the server of Temporal cannot list the times of voidbox/0123456789abcdef/d/nightly now: ${details}`,
  );
});

test('a wrong request stays a bug', async () => {
  await expect(openFailing(3, 'wrong').listTimes(NAME, 0, 1)).rejects.toThrow('3 STATUS: wrong');
});
