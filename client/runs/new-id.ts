/** Ids of runs and sessions that are started without one. */
import { randomBytes } from 'node:crypto';
import { runIdOf } from '../../domain/run/new-run-id.ts';

export function createRunId(name: string, now: Date, random: string = randomBytes(2).toString('hex')): string {
  return runIdOf(name, now, random);
}
