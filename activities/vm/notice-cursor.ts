/** A worker's position in the notices of a VM's door. */
import { NOTHING_READ, type ToldNotice } from '../../domain/run/door-notice.ts';
import type { Redactor } from '../../domain/security/redactor.ts';

export type DoorListener = (notice: ToldNotice) => void;

/** The notices of a VM that this worker has read, and the values that must not appear in their events. */
export class NoticeCursor {
  read = NOTHING_READ;
  readonly redactors = new Set<Redactor>();
  /** Called with each notice of the door, also with notices that an earlier worker stored. */
  readonly listeners = new Set<DoorListener>();
  #last: Promise<unknown> = Promise.resolve();

  /** Runs one reader at a time: each reader continues at the position of the previous one. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => undefined);
    return next;
  }
}
