/** Decides which services guests may reach: at admission, and again before each launch of a VM of the run. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import { describeConfined, isConfined, type Starter, type Starters } from '../ports/starters.ts';

/**
 * The allowed services as `host:port`, with IPv6 addresses in brackets. `any`: a spec may name every service, as on the
 * embedded stack.
 */
export type ServicePolicy = 'any' | readonly string[];

/**
 * Rejects services that the policy does not allow. A service may be on the worker's own loopback or network, where
 * other programs trust local clients.
 * @throws CodedError `admit/service-refused`
 */
export function refuseServices(
  scopes: readonly { readonly id: string; readonly sandbox: Pick<SandboxPlan, 'egress'> }[],
  policy: ServicePolicy | undefined,
  starter: Starter,
): void {
  const allowedAt = selectServices(policy ?? [], starter);
  if (allowedAt === 'any') return;
  for (const { id, sandbox } of scopes)
    for (const { name, host, port } of sandbox.egress?.services ?? []) {
      const at = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
      if (allowedAt.includes(at)) continue;
      const allowed = allowedAt.length === 0 ? 'no services' : allowedAt.join(', ');
      throw new CodedError(
        'admit/service-refused',
        `the service ${name} (${at}) of scope ${id} is refused: ${isConfined(starter) ? `the service allows the runs of ${describeConfined(starter)}` : 'this worker allows'} ${allowed}`,
      );
    }
}

/**
 * Checks the services again before a VM is launched: since admission, the worker may have been restarted with another
 * policy. The record of the starter is read only for a VM with services, because each stage calls this.
 * @throws CodedError `admit/service-refused`
 */
export async function confirmServices(
  deps: { readonly starters: Starters; readonly servicePolicy?: ServicePolicy | undefined },
  runId: string,
  scope: Parameters<typeof refuseServices>[0][number],
): Promise<void> {
  if ((scope.sandbox.egress?.services ?? []).length === 0) return;
  refuseServices([scope], deps.servicePolicy, await deps.starters.starterOf(runId));
}

/** The spec of a token is not the owner's, nor is the event of a deployment, so they get only services that the options of the worker name. */
function selectServices(policy: ServicePolicy, starter: Starter): ServicePolicy {
  return isConfined(starter) && policy === 'any' ? [] : policy;
}
