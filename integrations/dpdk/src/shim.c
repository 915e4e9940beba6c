/* The calls that the crate needs from DPDK; several of them are inline functions of its headers. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

/* Initialises DPDK once for the process. Returns an error number, or 0. */
int flowloom_dpdk_start(int count, char **words) {
  if (rte_eal_init(count, words) >= 0) {
    return 0;
  }
  return rte_errno != 0 ? rte_errno : EINVAL;
}

/* Configures and starts a port. Returns an error number, or 0, and its number and pool of buffers. */
int flowloom_dpdk_open(const char *name, uint16_t queues, uint16_t descriptors, uint32_t buffers, uint16_t *port,
                       struct rte_mempool **pool) {
  struct rte_eth_conf conf;
  struct rte_eth_dev_info info;
  char pool_name[RTE_MEMPOOL_NAMESIZE];
  uint16_t mtu = 0, receive = descriptors, send = descriptors;
  int error = rte_eth_dev_get_port_by_name(name, port);
  if (error != 0) {
    return -error;
  }
  if ((error = rte_eth_dev_info_get(*port, &info)) != 0 || (error = rte_eth_dev_get_mtu(*port, &mtu)) != 0) {
    return -error;
  }
  if (queues > info.max_rx_queues || queues > info.max_tx_queues) {
    return ERANGE;
  }
  snprintf(pool_name, sizeof pool_name, "flowloom_%u", (unsigned)*port);
  uint32_t space = (uint32_t)mtu + RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN + RTE_PKTMBUF_HEADROOM;
  if (space < RTE_MBUF_DEFAULT_BUF_SIZE) {
    space = RTE_MBUF_DEFAULT_BUF_SIZE;
  }
  if (space > UINT16_MAX) {
    return EMSGSIZE;
  }
  *pool = rte_pktmbuf_pool_create(pool_name, buffers, 0, 0, (uint16_t)space, rte_eth_dev_socket_id(*port));
  if (*pool == NULL) {
    return rte_errno != 0 ? rte_errno : ENOMEM;
  }
  memset(&conf, 0, sizeof conf);
  if (queues > 1) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads;
  }
  if ((error = rte_eth_dev_configure(*port, queues, queues, &conf)) != 0 ||
      (error = rte_eth_dev_adjust_nb_rx_tx_desc(*port, &receive, &send)) != 0) {
    return -error;
  }
  for (uint16_t queue = 0; queue < queues; queue++) {
    if ((error = rte_eth_rx_queue_setup(*port, queue, receive, rte_eth_dev_socket_id(*port), NULL, *pool)) != 0 ||
        (error = rte_eth_tx_queue_setup(*port, queue, send, rte_eth_dev_socket_id(*port), NULL)) != 0) {
      return -error;
    }
  }
  if ((error = rte_eth_dev_start(*port)) != 0) {
    return -error;
  }
  /* Some drivers are always promiscuous, and say that they cannot be made so. */
  error = rte_eth_promiscuous_enable(*port);
  return error == 0 || error == -ENOTSUP ? 0 : -error;
}

/* Receives at most `most` frames. A frame in several buffers is freed and counted. */
uint16_t flowloom_dpdk_receive(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t most,
                               uint64_t *unusable) {
  uint16_t kept = 0;
  uint16_t count = rte_eth_rx_burst(port, queue, frames, most);
  for (uint16_t index = 0; index < count; index++) {
    struct rte_mbuf *frame = frames[index];
    /* The driver may have taken the tag from the frame. */
    int is_tagged = (frame->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) == 0 || rte_vlan_insert(&frame) == 0;
    if (!is_tagged || frame->nb_segs != 1) {
      rte_pktmbuf_free(frame);
      ++*unusable;
      continue;
    }
    frames[kept++] = frame;
  }
  return kept;
}

const uint8_t *flowloom_dpdk_bytes(const struct rte_mbuf *frame, uint32_t *length) {
  *length = rte_pktmbuf_data_len(frame);
  return rte_pktmbuf_mtod(frame, const uint8_t *);
}

void flowloom_dpdk_free(struct rte_mbuf **frames, uint32_t count) { rte_pktmbuf_free_bulk(frames, count); }

/* Copies a frame into a buffer of a pool. Returns NULL where none is free or the frame is too long. */
struct rte_mbuf *flowloom_dpdk_copy(struct rte_mempool *pool, const uint8_t *bytes, uint32_t length) {
  struct rte_mbuf *frame = length <= UINT16_MAX ? rte_pktmbuf_alloc(pool) : NULL;
  if (frame == NULL) {
    return NULL;
  }
  char *space = rte_pktmbuf_append(frame, (uint16_t)length);
  if (space == NULL) {
    rte_pktmbuf_free(frame);
    return NULL;
  }
  memcpy(space, bytes, length);
  return frame;
}

/* Sends frames. Those from the returned number on still belong to the caller. */
uint16_t flowloom_dpdk_send(uint16_t port, uint16_t queue, struct rte_mbuf **frames, uint16_t count) {
  return rte_eth_tx_burst(port, queue, frames, count);
}

/* The frames that the port has lost since it was started. */
uint64_t flowloom_dpdk_lost(uint16_t port) {
  struct rte_eth_stats stats;
  return rte_eth_stats_get(port, &stats) == 0 ? stats.imissed + stats.rx_nombuf : 0;
}

void flowloom_dpdk_close(uint16_t port, struct rte_mempool *pool) {
  rte_eth_dev_stop(port);
  rte_eth_dev_close(port);
  rte_mempool_free(pool);
}
