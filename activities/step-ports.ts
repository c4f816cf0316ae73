/** What the activities of sessions need: somebody who runs the code of skills, and a place for records. */
import type { SessionEventBody } from '../domain/step-machine/event.ts';
import type { StepRecord } from '../domain/step-machine/records.ts';
import type { ActionRequest, FlushRequest, ObserveRequest, OpenedSession, OpenRequest, TurnOutcome, TurnRequest } from './contract-session.ts';

/** Runs authors' code in processes of its own. */
export interface SkillHost {
  /** @throws CodedError `skill/unknown`, `skill/params`, `skill/unusable`, `skill/crashed` */
  open(request: OpenRequest): Promise<Omit<OpenedSession, 'searchAttributes'>>;
  /** What becomes of the author's code is part of the outcome. */
  turn(request: TurnRequest): Promise<TurnOutcome>;
  /**
   * Gives the event that ends the attempt; an action that crashes or runs out of time is one as well.
   * @param signal  ends the action, and its process if it does not listen
   * @throws CodedError `skill/away`
   */
  act(request: ActionRequest, signal: AbortSignal): Promise<SessionEventBody>;
  /** @throws CodedError `skill/away`, `skill/crashed` */
  observe(request: ObserveRequest, signal: AbortSignal): Promise<void>;
}

/** Records of sessions that their workflows carry no more. */
export interface SessionRecordStore {
  /** Gives the name under which they and all before them are read. Idempotent: the same records have the same name. */
  write(request: FlushRequest): Promise<string>;
  /** Oldest first. @throws CodedError `store/io` when they are not here */
  read(session: string, ref: string): Promise<readonly StepRecord[]>;
}
