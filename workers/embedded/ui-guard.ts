/** Decides which requests the proxy of the Temporal UI accepts, by the rules of `domain/security/request-guard.ts`. */
import { findRefusal, type GuardedRequest } from '../../domain/security/request-guard.ts';

export type DoorRequest = GuardedRequest;

const API = '/api/';

/** Why the request is refused; null when it is not. */
export function refusal(request: DoorRequest, port: number): string | null {
  return findRefusal(request, {
    hosts: [`127.0.0.1:${port}`, `localhost:${port}`],
    listOrigins: (host) => [`http://${host}`],
    // Browsers send an Origin with each write; other clients can use the server's own port.
    needsOrigin: true,
    isPage: (target) => !isApi(target),
  });
}

/** Whether the path is one of the API. All other paths are pages of the UI, which contain no data. */
export function isApi(target: string): boolean {
  return target.startsWith(API);
}
