/** Which services a worker lets guests reach: decided at admission, and again each time that a VM of the run is launched. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';

/** `host:port`, an address of version 6 in brackets. `any`: a spec names what it needs, as on the embedded stack. */
export type ServicePolicy = 'any' | readonly string[];

/**
 * A service may be on the worker's own loopback and network, where others trust who comes from there.
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
