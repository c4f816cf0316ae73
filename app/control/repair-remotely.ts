import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { connectService, createForeignError } from '../../http/service-client.ts';

/** The service repairs a run when it reads the run. Returns the ids of the runs that have ended. */
export async function repairRemotely(
  runIds: readonly string[],
  service: ServiceSettings,
): Promise<ReadonlySet<string>> {
  const client = connectService(service);
  const repaired = new Set<string>();
  for (const runId of runIds) {
    const run = (await client.readJson({ path: ['runs', runId] })) as { readonly state?: unknown } | null;
    const state = run?.state;
    if (typeof state !== 'string') throw createForeignError(client.name);
    if (state !== 'running' && state !== 'damaged') repaired.add(runId);
  }
  return repaired;
}
