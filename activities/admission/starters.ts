/** Implementations of the `Starters` port. */
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import { pickEventIds } from '../../domain/run/run-trigger.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { Starter, Starters } from '../ports/starters.ts';

/**
 * For a worker of your own Temporal server: every client of the server may start runs there. A run that a service started
 * for a token or a deployment has the limits of its mark.
 */
export function createAnyStarters(marks: Pick<HostMarks, 'get'>): Starters {
  return {
    starterOf: async (runId, given = marks) => {
      const starter = findStarter(await given.get(runId, CLIENT_MARK));
      return starter.kind === 'owner' || starter.kind === 'unmarked' ? { kind: 'any' } : starter;
    },
  };
}

/**
 * For the embedded stack. Every account of a machine reaches its server, but only the owner can write a mark into the
 * state folder. `voidbox run` writes the mark before it starts the workflow.
 */
export function createMarkedStarters(marks: Pick<HostMarks, 'get'>): Starters {
  return {
    starterOf: async (runId, given = marks) => {
      const starter = findStarter(await given.get(runId, CLIENT_MARK));
      return starter.kind === 'unmarked' ? { kind: 'unknown' } : starter;
    },
  };
}

function findStarter(mark: unknown): Starter | { readonly kind: 'unmarked' } {
  const { baseDir, allow, allowGit, starter } = (mark ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof baseDir !== 'string') return { kind: starter === undefined ? 'unmarked' : 'unknown' };
  if (starter === undefined) return { kind: 'owner', baseDir, allow: textsIn(allow), allowGit: textsIn(allowGit) };
  const { kind, name, version, delivery } = (starter ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'token' && typeof name === 'string')
    return { kind: 'token', name, baseDir, allowGit: textsIn(allowGit) };
  if (kind === 'deployment' && typeof name === 'string' && typeof version === 'number' && typeof delivery === 'string')
    return {
      kind,
      name,
      version,
      delivery,
      ...pickEventIds(starter),
      baseDir,
      allow: textsIn(allow),
      allowGit: textsIn(allowGit),
    };
  // A starter of a later build gets no permission of the owner.
  return { kind: 'unknown' };
}

function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
