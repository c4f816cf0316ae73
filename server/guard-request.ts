/** Refuses requests over TCP that a browser sends for a page of another site, also after DNS rebinding. */
import type { IncomingMessage } from 'node:http';
import { isLoopback, toPlainAddress } from '../client/embedded/listen-address.ts';
import type { TcpSource } from '../client/embedded/api-messages.ts';
import { isApprovalPath } from './json-body.ts';
import { findRefusal } from '../domain/security/request-guard.ts';

/** @returns why the request is refused; null when it is not */
export function findForeignRequest(incoming: IncomingMessage, source: TcpSource): string | null {
  const { method = '', url: target = '', headers, headersDistinct, socket } = incoming;
  const scheme = source.tls === null ? 'http' : 'https';
  const own = listOwnHosts(toPlainAddress(socket.localAddress ?? ''), socket.localPort ?? 0, scheme);
  const publicUrl = source.publicUrl === null ? null : new URL(source.publicUrl);
  const named = publicUrl === null ? [] : listHosts(publicUrl.hostname, publicUrl.port, publicUrl.protocol);
  return findRefusal(
    {
      method,
      target,
      // Node keeps the first of two.
      host: headersDistinct['host']?.length === 1 ? headers.host?.toLowerCase() : undefined,
      origin: headers.origin,
      fetchSite: headersDistinct['sec-fetch-site']?.join(),
      fetchMode: headersDistinct['sec-fetch-mode']?.join(),
    },
    {
      hosts: [...own, ...named],
      listOrigins: (host) => [
        ...(own.includes(host) ? [`${scheme}://${host}`] : []),
        ...(publicUrl === null ? [] : [publicUrl.origin]),
      ],
      // A token authorizes a write, and no browser sends a token on its own.
      needsOrigin: false,
      // A chat program is another site, and its users open links to questions.
      isPage: isApprovalPath,
      isForm: isApprovalPath,
      takesOptions: (path) => path.startsWith('/hooks/'),
    },
  );
}

/** The address that the client has reached, also on a listener of all addresses. */
function listOwnHosts(host: string, port: number, scheme: string): readonly string[] {
  const names = isLoopback(host) ? [host, 'localhost'] : [host];
  return names.flatMap((name) => listHosts(name.includes(':') ? `[${name}]` : name, String(port), `${scheme}:`));
}

/** Clients leave out the port of the scheme. */
function listHosts(hostname: string, port: string, protocol: string): readonly string[] {
  const ofScheme = protocol === 'https:' ? '443' : '80';
  const full = `${hostname}:${port === '' ? ofScheme : port}`;
  return port === '' || port === ofScheme ? [full, hostname] : [full];
}
