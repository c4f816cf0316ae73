/** Decides which services guests may reach: at admission, and again before each launch of a VM of the run. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import type { Starter } from '../ports/starters.ts';

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
        `the service ${name} (${at}) of scope ${id} is refused: ${starter.kind === 'token' ? 'the service allows the runs of a token' : 'this worker allows'} ${allowed}`,
      );
    }
}

/** The spec of a token is not the owner's, so it gets only services that the options of the worker name. */
function selectServices(policy: ServicePolicy, { kind }: Starter): ServicePolicy {
  return kind === 'token' && policy === 'any' ? [] : policy;
}
