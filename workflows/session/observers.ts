/**
 * Tells a session's observers what happened: in order, one batch after the other. Only the end of the session waits for
 * it.
 */
import { log } from '@temporalio/workflow';
import type { Observation, SkillPlace } from '../../activities/contract-session.ts';
import type { Command } from '../../domain/step-machine/command.ts';
import { countJsonBytes } from '../../domain/step-machine/size-limits.ts';
import { reasonOf } from '../activity-outcome.ts';
import { activities } from './calls.ts';

/** The size of one activity's events. */
const MOST_BATCH_BYTES = 512 * 1024;

export class ObserverQueue {
  /**
   * The number of events so far. Each event has a number, by which observers recognize an event that they already got.
   */
  #observed: number;
  readonly #place: () => SkillPlace;
  #waiting: Observation[] = [];
  #isTelling = false;

  constructor(observed: number, place: () => SkillPlace) {
    this.#observed = observed;
    this.#place = place;
  }

  get observed(): number {
    return this.#observed;
  }
  get isTelling(): boolean {
    return this.#isTelling;
  }

  /**
   * @param known  the observers that the skill has; events of others are left out
   * @param flushedRef  the records that the state no longer contains
   */
  add(
    { skill, frame, observer, payload }: Extract<Command, { readonly type: 'emit' }>,
    known: readonly string[],
    flushedRef: string | null,
  ): void {
    if (!known.includes(`${skill.join('/')}:${observer}`)) return;
    this.#observed += 1;
    const older = observer === 'onSkillComplete' && flushedRef !== null ? { older: { ref: flushedRef, frame } } : {};
    this.#waiting.push({ number: this.#observed, skill, observer, payload, ...older });
    if (!this.#isTelling) void this.#tell();
  }

  /** Takes as many events as fit into one message, but at least one. */
  #nextBatch(): readonly Observation[] {
    let left = MOST_BATCH_BYTES;
    const beyond = this.#waiting.findIndex((event, index) => (left -= countJsonBytes(event)) < 0 && index > 0);
    const events = beyond < 0 ? this.#waiting : this.#waiting.slice(0, beyond);
    this.#waiting = this.#waiting.slice(events.length);
    return events;
  }

  async #tell(): Promise<void> {
    this.#isTelling = true;
    // Waits so that all events of this task go together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const events = this.#nextBatch();
      try {
        await activities.observe.executeWithOptions({ summary: `tell observers ${events.length} events` }, [
          { ...this.#place(), events },
        ]);
      } catch (error) {
        log.warn(`observers were not told of ${events.length} events: ${reasonOf(error).message}`);
      }
    }
    this.#isTelling = false;
  }
}
