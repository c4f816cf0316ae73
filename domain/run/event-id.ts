/**
 * Ids of events, derived from the recorded fact: a second writer of the same fact makes the same id, and the store
 * keeps the first. Logs contain these ids, so a build can read logs of an earlier build only while they do not change.
 */

export const EVENT_ID = {
  runAdmitted: 'run/admitted',
  runFinished: 'run/finished',
  /** @param by  the worker that took over the run */
  runResumed: (by: string): string => `run/resumed/${by}`,
  /** @param events  the number of events in the log afterwards */
  runRestored: (events: number): string => `run/restored/${events}`,
  scopeRestarted: (scope: string, generation: number): string => `run/scope-restarted/${scope}/${generation}`,
  /** The VM does not hold the work that an earlier run had done in the scope. */
  scopeBegunAgain: (scope: string, generation: number): string => `run/scope-begun-again/${scope}/${generation}`,
  /** No checkpoint of the earlier run is used for the scope. */
  noCheckpoint: (scope: string): string => `run/no-checkpoint/${scope}`,
  releaseFailed: (scope: string, generation: number): string => `run/release-failed/${scope}/${generation}`,

  /** @param number  of the notice about a signal or update without a handler, from 1 */
  stray: (number: number): string => `run/stray/${number}`,

  /** @param source  `remote:OWNER/NAME/SKILL` */
  skillFetched: (source: string): string => `run/skill-fetched/${source}`,

  variableUnset: (name: string): string => `run/variable-unset/${name}`,

  vm: (vmKey: string, transition: 'starting' | 'ready' | 'lost' | 'stopped' | 'retained' | 'not-retained'): string =>
    `vm/${vmKey}/${transition}`,
  /** @param ended  the key of a retained VM, which was ended to make room */
  madeRoom: (vmKey: string, ended: string): string => `vm/${vmKey}/made-room/${ended}`,

  /** An event of an attempt, by the exec key of its first command. */
  attempt: (
    execKey: string,
    transition:
      | 'started'
      | 'finished'
      | 'failed'
      | 'retrying'
      | 'asking'
      | 'answered'
      | 'sleeping'
      | 'woken'
      | 'not-redacted'
      | 'login-ends'
      | 'unpriced'
      | 'not-saved'
      | 'end-not-saved'
      | 'not-kept'
      | 'left-out'
      | 'not-published'
      | 'not-copied'
      | 'resumed'
      | 'starts-again'
      | 'checkpoint'
      | 'no-checkpoint',
  ): string => `stage/${execKey}/${transition}`,
  /** @param mount  the index of the mount in the scope's list */
  gitKept: (execKey: string, mount: number): string => `stage/${execKey}/git-kept/${mount}`,
  reattached: (execKey: string, vmKey: string, fence: number): string =>
    `stage/${execKey}/reattached/${vmKey}/${fence}`,
  /** One event for a stage, however many items and attempts it has. */
  outputRedacted: (stage: string, breaksJson: boolean): string =>
    `stage/${stage}/output-redacted${breaksJson ? '/json' : ''}`,
  /** The result of an earlier run replaces that of the stage. */
  given: (stage: string): string => `stage/${stage}/given`,
  /** @param times  from 1: counts how often the stage was skipped, which a lost VM may repeat */
  skipped: (stage: string, times: number): string => `stage/${stage}/skipped${times === 1 ? '' : `/${times}`}`,

  /**
   * @param evaluation  of the loop's condition, from 1. The number of the visit would not be unique, because each visit
   * of an outer loop begins at 1 again
   */
  visited: (stage: string, evaluation: number): string => `stage/${stage}/visited/${evaluation}`,

  /** @param evaluation  from 1: after the loss of a VM, the stage is decided again */
  passed: (stage: string, evaluation: number): string =>
    `stage/${stage}/passed${evaluation === 1 ? '' : `/${evaluation}`}`,

  /**
   * @param offset  of the line of the agent's stream with the fact, in bytes before redaction
   * @param index  of the fact in the line
   */
  agent: (execKey: string, offset: number, index: number): string => `agent/${execKey}/${offset}/${index}`,

  /** @param command  the exec key of the agent's command that asks */
  asked: (command: string): string => `agent/${command}/asked`,

  /** @param command  the exec key of the agent's command that did not end after its final result */
  hung: (command: string): string => `agent/${command}/hung`,

  /** @param number  of the save of the attempt, from 1 without gaps */
  progress: (execKey: string, number: number): string => `stage/${execKey}/progress/${number}`,

  /** @param number  of the publication of the attempt, from 1 without gaps */
  published: (execKey: string, number: number): string => `stage/${execKey}/published/${number}`,

  /** @param execKey  of the stage's attempt @param call  of the command with which a person enters its VM */
  entered: (execKey: string, call: string): string => `stage/${execKey}/entered/${call}`,

  /** @param command  of the attempt, from 1 */
  skillStep: (execKey: string, command: number): string => `skill/${execKey}/step/${command}`,

  /** @param offset  of the notice, in bytes of the VM's notices */
  network: (vmKey: string, kind: 'notice' | 'more', offset: number): string => `network/${vmKey}/${kind}/${offset}`,

  /** @param from  the offset of the piece in the stream, in bytes before redaction */
  output: (execKey: string, stream: 'stdout' | 'stderr', from: number): string => `exec/${execKey}/${stream}/${from}`,
} as const;

/** The number at the end of an id, such as a VM's generation; NaN if the id has no number there. */
export function lastNumber(id: string): number {
  const text = id.slice(id.lastIndexOf('/') + 1);
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}
