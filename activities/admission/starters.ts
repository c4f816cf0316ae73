/** Implementations of the `Starters` port. */
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { Starter, Starters } from '../ports/starters.ts';

/** For a worker of your own Temporal server: every client of the server may start runs there. */
export const ANY_STARTER: Starters = { starterOf: () => Promise.resolve({ kind: 'any' }) };

/**
 * For the embedded stack. Every account of a machine reaches its server, but only the owner can write a mark into the
 * state folder. `voidbox run` writes the mark before it starts the workflow.
 */
export function createMarkedStarters(marks: Pick<HostMarks, 'get'>): Starters {
  return {
    starterOf: async (runId) => starterIn(await marks.get(runId, CLIENT_MARK)),
  };
}

function starterIn(mark: unknown): Starter {
  const { baseDir, allow, allowGit, starter } = (mark ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof baseDir !== 'string') return { kind: 'unknown' };
  if (starter === undefined) return { kind: 'owner', baseDir, allow: textsIn(allow), allowGit: textsIn(allowGit) };
  const { kind, name } = (starter ?? {}) as Readonly<Record<string, unknown>>;
  // A starter of a later build gets no permission of the owner.
  if (kind !== 'token' || typeof name !== 'string') return { kind: 'unknown' };
  return { kind: 'token', name, baseDir, allowGit: textsIn(allowGit) };
}

function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
