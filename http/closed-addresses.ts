/**
 * Addresses to which this host sends no request that a spec or an answer chose: those which no rule of `egress` opens to
 * a guest unless it names them by number, because what listens there trusts its network.
 */
import { BlockList, isIPv6 } from 'node:net';
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os';
import { CLOSED_NETWORKS, GUARDED_ADDRESSES } from '../domain/security/closed-networks.ts';

// One list of both would find each address of version 4 among those in another form.
const closedV4 = new BlockList();
const closedV6 = new BlockList();
for (const { network, prefix } of CLOSED_NETWORKS) addNetwork(closedV4, closedV6, network, prefix);
for (const address of GUARDED_ADDRESSES) closedV4.addAddress(address);

/**
 * @param address  an IP address from a lookup
 * @param interfaces  the networks that this host is directly connected to
 */
export function isClosedAddress(
  address: string,
  interfaces: NodeJS.Dict<readonly Pick<NetworkInterfaceInfo, 'cidr'>[]> = networkInterfaces(),
): boolean {
  const hostV4 = new BlockList();
  const hostV6 = new BlockList();
  for (const { cidr } of Object.values(interfaces).flatMap((each) => each ?? [])) {
    const [network = '', prefix = ''] = cidr?.split('/') ?? [];
    // A prefix of no bits is everything, and no network.
    if (Number(prefix) > 0) addNetwork(hostV4, hostV6, network, Number(prefix));
  }
  return isIPv6(address)
    ? closedV6.check(address, 'ipv6') || hostV6.check(address, 'ipv6')
    : closedV4.check(address, 'ipv4') || hostV4.check(address, 'ipv4');
}

function addNetwork(v4: BlockList, v6: BlockList, network: string, prefix: number): void {
  if (isIPv6(network)) v6.addSubnet(network, prefix, 'ipv6');
  else v4.addSubnet(network, prefix, 'ipv4');
}
