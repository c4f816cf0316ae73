/** Which Temporal server: one's own by `TEMPORAL_*` or a temporal.toml profile, else the embedded one. */
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { Environment } from '../setup/environment.ts';

export interface TemporalAddress {
  readonly address: string;
  readonly namespace: string;
  readonly tls: ConnectionTls | undefined;
  readonly apiKey: string | undefined;
}

type ConnectConfig = ReturnType<typeof loadClientConnectConfig>;
type ConnectionTls = Exclude<ConnectConfig['connectionOptions']['tls'], null | undefined>;

export function embeddedAddress(address: string, namespace = 'default'): TemporalAddress {
  return { address, namespace, tls: undefined, apiKey: undefined };
}

/** The server that the environment names; null when it names none. */
export function configuredAddress(env: Environment): TemporalAddress | null {
  if (!env.temporalConfigured) return null;
  const config = loadClientConnectConfig();
  const { connectionOptions } = config;
  return {
    address: connectionOptions.address ?? 'localhost:7233',
    namespace: config.namespace ?? 'default',
    tls: connectionOptions.tls ?? undefined,
    apiKey: typeof connectionOptions.apiKey === 'string' ? connectionOptions.apiKey : undefined,
  };
}

export function connectionOptions(target: TemporalAddress): { address: string; tls?: ConnectionTls; apiKey?: string } {
  return {
    address: target.address,
    ...(target.tls === undefined ? {} : { tls: target.tls }),
    ...(target.apiKey === undefined ? {} : { apiKey: target.apiKey }),
  };
}

export function isLoopback(address: string): boolean {
  return /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?$/.test(address);
}
