import type { SkillPruneOptions, SkillPruneReport } from '../../activities/ports/session-stores.ts';
import { openSessionPruner } from '../../store/open-session-stores.ts';
import type { CliContext } from '../context.ts';

export interface SessionPruneReport extends SkillPruneReport {
  /** Why something was not looked at, with what helps; null when all was. */
  readonly kept: string | null;
}

const NOTHING = { sessions: [], skills: [] } as const;

/**
 * Removes files of ended sessions, and code that no session runs. Only their server knows which these are, so without
 * it they stay.
 */
export async function pruneSessionFiles(
  context: CliContext,
  options: Omit<SkillPruneOptions, 'nowMs'>,
): Promise<SessionPruneReport> {
  const pruner = openSessionPruner(context.env);
  if (!(await pruner.hasAny())) return { ...NOTHING, kept: null };
  // Loaded here and not above: without sessions, runs are pruned without the Temporal SDK.
  const { openServerLink } = await import('../../client/temporal/server-link.ts');
  const { listSessionUses } = await import('../../client/sessions/uses.ts');
  const { readConfiguredAddress, serverIdOf } = await import('../../client/temporal/temporal-address.ts');
  const link = await openServerLink(context, { start: false }).catch(() => null);
  if (link === null)
    return {
      ...NOTHING,
      kept: 'session files are kept: only their server knows which sessions have ended. Start it and prune again: voidbox up',
    };
  let uses;
  try {
    uses = await listSessionUses(
      link.client(),
      serverIdOf(link.isEmbedded ? null : readConfiguredAddress(context.env)),
    );
  } catch (error) {
    return {
      ...NOTHING,
      kept: `session files are kept: their server at ${link.address()} does not say which sessions have ended: ${(error as Error).message}`,
    };
  }
  const report = await pruner.prune(uses, { ...options, nowMs: context.now().getTime() });
  const kept =
    uses.codeHashes === null
      ? 'code of step machines is kept: an open session did not answer which code it runs (voidbox session list --state open)'
      : null;
  return { ...report, kept };
}
