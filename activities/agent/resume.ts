/**
 * Decides how a stage with an interrupted agent continues: from a save, or from its beginning. Its VM was lost, or its
 * run is a retry with `continue`.
 */
import type { AgentProvider } from '../../agents/provider.ts';
import { type AgentUsage, NO_USAGE } from '../../agents/stream.ts';
import { isService } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { ContinuedAgent, SavedAgent } from '../../domain/run/agent-saves.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { withoutPartial } from '../../domain/run/partial-work.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { formatAttempt, parseExecKey } from '../../domain/run/attempt.ts';
import { countSaves } from './attempt-saves.ts';
import { isResumable } from './progress.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { readSession } from './saved-session.ts';
import { readResult } from '../attempt/record.ts';
import { restoreChanges } from '../workspace/changes.ts';
import { quote } from '../../domain/units/quote.ts';

/** The prompt of a resumed agent. Its session already contains the original prompt. */
export const RESUME_PROMPT = `The machine that you worked on was lost, and you continue on a new one. Your files are as they were after a recent call of a tool; what was changed after it is gone, and no program that you started is still running. Check what is there and continue with your task.
`;

/** The most characters of the reason why an earlier attempt ended. */
const MOST_REASON = 1_000;

/** Returns the prompt, with a list of files that were not saved and that the agent may need. */
export function resumePromptOf(saved: Pick<SavedAgent, 'folders'> & Partial<Pick<ContinuedAgent, 'ended'>>): string {
  const first = saved.ended === undefined ? RESUME_PROMPT : continuePromptOf(saved.ended);
  const left = leftOutOf(saved);
  return left === null ? first : `${first}${left} were not saved: make them again where you need them.\n`;
}

/** Parts of the reason come from a guest or from a model's server; the agent has seen such text before. */
function continuePromptOf(ended: ContinuedAgent['ended']): string {
  const message = ended === null ? '' : sanitizeLine(withoutPartial(ended.message)).slice(0, MOST_REASON);
  const reason = ended === null ? '' : ` The reason: ${message} (${ended.code}).`;
  return `Your work was interrupted before its end.${reason} You continue it now on a new machine, with a new limit of time and a new budget. Your files are as they were at the last save; changes after it are lost, and no program that you started is still running. Check what is there and continue with your task.
`;
}

/** Returns a list for people and agents; null if everything was saved. */
function leftOutOf({ folders }: Pick<SavedAgent, 'folders'>): string | null {
  const names = folders.flatMap(({ changes }) => changes?.leftOut ?? []);
  const more = folders.reduce((sum, { changes }) => sum + (changes?.leftOutCount ?? 0), 0) - names.length;
  if (names.length === 0) return null;
  return `Files and folders that git ignores or that cannot leave the VM (${names.join(', ')}${more > 0 ? ` and ${more} more` : ''})`;
}

/** Returns true if the save must be applied to a fresh checkout. */
export function needsCheckout({ folders }: Pick<SavedAgent, 'folders'>): boolean {
  return folders.some(({ changes }) => changes !== undefined);
}

/** The most consecutive attempts with a lost VM that are searched for a save. */
const MOST_LOST = 100;

/**
 * Returns the newest save of the attempts right before this one whose VMs were lost. If no attempt of this run ended
 * otherwise, the save of the earlier run that this run continues counts too. Returns null without a save: the agent
 * then starts from its beginning.
 */
export async function findSave(
  deps: Pick<ActivityDeps, 'events' | 'artifacts' | 'now'>,
  request: StageRequest,
  sessionFolder: string,
): Promise<SavedAgent | ContinuedAgent | null> {
  const { runId, execKey } = request;
  const name = parseExecKey(execKey);
  if (name === null) throw new Error(`${quote(execKey)} is no exec key`);
  const isSaved = isResumable(request, sessionFolder);
  let hasBegun = false;
  let hasEnded = false;
  for (let lost = 1; lost < name.attempt && lost <= MOST_LOST; lost += 1) {
    const earlier = formatAttempt({ ...name, attempt: name.attempt - lost });
    if ((await readResult(deps.events, runId, earlier)) !== null) {
      hasEnded = true;
      break;
    }
    const saved = isSaved ? await newestOf(deps, runId, earlier) : null;
    if (saved !== null) return saved;
    hasBegun ||= (await deps.events.find(runId, EVENT_ID.attempt(earlier, 'started'))) !== null;
  }
  if (!hasEnded && request.continued !== undefined) return request.continued;
  if (hasBegun) await recordRestart(deps, request, isSaved);
  return null;
}

/** Records one notice per attempt. */
async function recordRestart(
  { events, now }: Pick<ActivityDeps, 'events' | 'now'>,
  { runId, stage, execKey }: StageRequest,
  isSaved: boolean,
): Promise<void> {
  const why = isSaved
    ? 'nothing of it was saved before its VM was lost'
    : isService(stage.work)
      ? 'its VM was lost, and a service starts from its beginning'
      : 'work is saved only of an agent with a VM of its own, and without mounts that are writable or lie in its folders';
  const message = `the agent of stage ${stage.id} starts again: ${why}`;
  const body = { type: 'notice', level: 'info', message } as const;
  await events.append(runId, [{ id: EVENT_ID.attempt(execKey, 'starts-again'), atMs: now(), body }]);
}

async function newestOf(
  deps: Pick<ActivityDeps, 'events' | 'artifacts'>,
  runId: string,
  execKey: string,
): Promise<SavedAgent | null> {
  const number = await countSaves(deps, runId, execKey);
  const event = number === 0 ? null : await deps.events.find(runId, EVENT_ID.progress(execKey, number));
  if (event?.body.type !== 'stage-progress') return null;
  const { sessionId, folders } = event.body;
  return { execKey, savedAtMs: event.atMs, sessionId, folders };
}

/**
 * Returns the usage that the saved session contains. Returns no usage if the agent's stream does not count it again.
 */
export async function readUseBeforeSave(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  { sessionFolder, sessionUse }: Pick<AgentProvider, 'sessionFolder' | 'sessionUse'>,
  { sessionId, folders }: Pick<SavedAgent, 'sessionId' | 'folders'>,
): Promise<AgentUsage> {
  const saved = folders.find(({ guestPath }) => guestPath === sessionFolder);
  if (sessionUse === undefined || saved === undefined) return NO_USAGE;
  let used = NO_USAGE;
  await readSession(artifacts.open(saved.ref), sessionId, (text) => (used = sessionUse(text) ?? used));
  return used;
}

/**
 * Restores a save into a new VM, after the checkout if the save needs one. It may run again until the agent's command
 * has started.
 */
export async function restore(
  { artifacts }: Pick<ActivityDeps, 'artifacts'>,
  sandbox: Sandbox,
  request: StageRequest,
  { folders }: SavedAgent,
  signal: AbortSignal,
): Promise<void> {
  for (const folder of folders)
    if (folder.changes === undefined) await sandbox.putTar(folder.guestPath, artifacts.open(folder.ref), signal);
    else await restoreChanges({ artifacts }, sandbox, request, folder, signal);
}

/** Records, once per attempt, the save from which the agent continues. */
export async function recordResume(
  deps: Pick<ActivityDeps, 'events' | 'now'>,
  { runId, stage, execKey }: StageRequest,
  saved: SavedAgent | ContinuedAgent,
): Promise<void> {
  const { execKey: from, savedAtMs } = saved;
  const origin =
    'runId' in saved ? { runId: saved.runId, ...(saved.turns === null ? {} : { turns: saved.turns }) } : {};
  await deps.events.append(runId, [
    {
      id: EVENT_ID.attempt(execKey, 'resumed'),
      atMs: deps.now(),
      body: { type: 'stage-resumed', stage: stage.id, execKey, from, savedAtMs, ...origin },
    },
    ...createSkippedNotice(saved, execKey, stage.id, deps.now()),
  ]);
}

function createSkippedNotice(saved: SavedAgent, execKey: string, stage: string, atMs: number): readonly NewRunEvent[] {
  const left = leftOutOf(saved);
  if (left === null) return [];
  const body = { type: 'notice', level: 'info', message: `stage ${stage}: ${left} were not saved` } as const;
  return [{ id: EVENT_ID.attempt(execKey, 'left-out'), atMs, body }];
}
