/** Decides which services guests may reach: at admission, and again before each launch of a VM of the run. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';

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
  policy: ServicePolicy = [],
): void {
  if (policy === 'any') return;
  for (const { id, sandbox } of scopes)
    for (const { name, host, port } of sandbox.egress?.services ?? []) {
      const at = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
      if (policy.includes(at)) continue;
      const allowed = policy.length === 0 ? 'no services' : policy.join(', ');
      throw new CodedError(
        'admit/service-refused',
        `the service ${name} (${at}) of scope ${id} is refused: this worker allows ${allowed}`,
      );
    }
}
