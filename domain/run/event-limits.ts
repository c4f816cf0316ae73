/**
 * The size limit of an event in every store: a reader holds one event in memory, and a database one in a row. Texts are
 * cut here, because nothing else bounds the texts of a host, a keeper or a server. The plan bounds the rest.
 *
 * Bytes of JSON of the largest events, against the limit of 1,048,576:
 * - `run-admitted`: names and edges as a workflow holds them (`PLAN_LIMITS.machineBytes`, 524,288), and for each of
 *   2,000 stages at most 15 more (`,"dependsOn":[]`); the id of an origin (6,000); names of mocked stages (134,000);
 *   three numbers of a budget.
 * - `stage-given`: 2,000 refs of named outputs, as in `stage-finished`; the id of a run.
 * - `stage-finished`: 2,000 refs of named outputs, each with a name of 64 within 256, either as outputs or as partial
 *   ones; three texts of a failure.
 * - `scope-restarted`: 2,000 names of 64 with their marks, 134,000; as many numbers of attempts; one text.
 * - `stage-asking`: an approval from the plan (`PLAN_LIMITS.approvalBytes`, 131,072), or with a message that is made
 *   for the question (`PLAN_LIMITS.messageCharacters`, 24,576 at worst).
 * - `stage-answered`: the fields of a rejection (`ANSWER_LIMITS.fieldBytes`, 65,536); the texts of a failure, a name
 *   and a comment.
 * - Others: a few names and texts. A text takes 6 bytes for a character at worst (`\u0000`), so 98,310.
 * Values that are larger by nature (outputs, inputs, plans) are artifacts, and their events contain the refs.
 */
import { cutText, TEXT_CHARACTERS } from '../units/cut-text.ts';
import { countUtf8Bytes } from '../units/utf8.ts';
import type { NewRunEvent, RunEventBody } from './event.ts';
import { storedEventShape } from './event-shape.ts';
import type { StageFailure } from './stage-result.ts';

export const EVENT_LIMITS = {
  /** JSON of an event other than output, which comes in pieces. */
  bytes: 1024 * 1024,
  /** Characters of each text for people. */
  textCharacters: TEXT_CHARACTERS,
} as const;

/**
 * Returns the event in the form that stores accept.
 * @throws TypeError for an event that no store accepts: a defect of its writer
 */
export function toStorableEvent(event: NewRunEvent): NewRunEvent {
  const storable = cutAndChecked(event);
  if (typeof storable !== 'string') return storable;
  throw new TypeError(`${storable}: ${JSON.stringify(event.id.slice(0, 160))} is not written`);
}

/** Explains why no store accepts the event, even after its texts are cut; null: a store accepts it. */
export function findEventProblem(event: NewRunEvent): string | null {
  const storable = cutAndChecked(event);
  return typeof storable === 'string' ? storable : null;
}

/** Returns the event, or its problem. Readers would report the whole run as damaged if the event were written. */
function cutAndChecked({ id, atMs, body }: NewRunEvent): NewRunEvent | string {
  const problem = storedEventShape({ id, atMs, body }, 'the event');
  if (problem !== null) return problem;
  if (body.type === 'output') return { id, atMs, body };
  const cutEvent = { id, atMs, body: withTextsCut(body) };
  const json = JSON.stringify(cutEvent);
  // A UTF-16 code unit takes at most 3 bytes, so the bytes of nearly every event need no counting.
  if (json.length * 3 <= EVENT_LIMITS.bytes) return cutEvent;
  const bytes = countUtf8Bytes(json);
  return bytes <= EVENT_LIMITS.bytes
    ? cutEvent
    : `the event has ${bytes} bytes of JSON; at most ${EVENT_LIMITS.bytes} are allowed: store larger values as artifacts`;
}

function withTextsCut(body: RunEventBody): RunEventBody {
  switch (body.type) {
    case 'run-resumed':
      return { ...body, by: cutText(body.by) };
    case 'vm-ready':
      return {
        ...body,
        vmm: cutText(body.vmm),
        accelerator: cutText(body.accelerator),
        kernel: cutText(body.kernel),
        jail: cutText(body.jail),
        ...(body.snapshot === undefined ? {} : { snapshot: cutText(body.snapshot) }),
        ...(body.startNote === undefined ? {} : { startNote: cutText(body.startNote) }),
        ...(body.resumeNote === undefined ? {} : { resumeNote: cutText(body.resumeNote) }),
      };
    case 'vm-lost':
    case 'checkpoint-failed':
    case 'scope-restarted':
    case 'stage-retrying':
    case 'stage-skipped':
    case 'stage-reattached':
      return { ...body, reason: cutText(body.reason) };
    case 'agent-text':
      return { ...body, text: cutText(body.text) };
    case 'agent-tool':
      return { ...body, tool: cutText(body.tool), detail: cutText(body.detail) };
    // The last lines of an output matter most.
    case 'agent-tool-output':
      return { ...body, tool: cutText(body.tool), text: body.text.slice(-EVENT_LIMITS.textCharacters) };
    case 'agent-asked':
      return { ...body, reason: cutText(body.reason) };
    case 'skill-step':
      return {
        ...body,
        step: cutText(body.step),
        ...(body.refusal === null ? {} : { refusal: cutText(body.refusal) }),
      };
    case 'notice':
      return { ...body, message: cutText(body.message) };
    case 'stage-finished':
      return { ...body, result: { ...body.result, failure: failureCut(body.result.failure) } };
    case 'run-finished':
      return { ...body, outcome: { ...body.outcome, failure: failureCut(body.outcome.failure) } };
    case 'stage-failed':
      return { ...body, failure: shortenFailure(body.failure) };
    case 'stage-answered':
      return {
        ...body,
        failure: failureCut(body.failure),
        ...(body.by === undefined ? {} : { by: cutText(body.by) }),
        ...(body.comment === undefined ? {} : { comment: cutText(body.comment) }),
      };
    // Names and numbers; output comes in pieces.
    case 'output':
    case 'agent-usage':
    case 'network':
    case 'stage-progress':
    case 'stage-published':
    case 'stage-resumed':
    case 'loop-visited':
    case 'run-admitted':
    case 'stage-given':
    case 'stage-asking':
    case 'stage-sleeping':
    case 'stage-woken':
    case 'stage-passed':
    case 'stage-started':
    case 'vm-starting':
    case 'vm-stopped':
    case 'checkpoint-made':
      return body;
    // An event of another build, from a call or a log.
    default:
      return body;
  }
}

function failureCut(failure: StageFailure | null): StageFailure | null {
  return failure === null ? null : shortenFailure(failure);
}

function shortenFailure(failure: StageFailure): StageFailure {
  // The last lines of standard error matter most.
  const { stderrTail } = failure;
  return {
    ...failure,
    message: cutText(failure.message),
    stderrTail: stderrTail.slice(-EVENT_LIMITS.textCharacters),
  };
}
