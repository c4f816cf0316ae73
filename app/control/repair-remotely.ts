import type { ServiceSettings } from '../../domain/access/service-settings.ts';
import { connectService } from '../../http/service-client.ts';

/** The service repairs a run when it reads the run. Returns the ids of the runs that have ended. */
export async function repairRemotely(
  runIds: readonly string[],
  service: ServiceSettings,
): Promise<ReadonlySet<string>> {
  const client = connectService(service);
  const repaired = new Set<string>();
  for (const runId of runIds) {
    const { state } = (await client.readJson({ path: ['runs', runId] })) as { readonly state: string };
    if (state !== 'running' && state !== 'damaged') repaired.add(runId);
  }
  return repaired;
}
